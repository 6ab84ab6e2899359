// CoreDNS with the plugins that a cluster needs and no other. Its one argument is the Corefile.
package main

import (
	"fmt"
	"os"

	"github.com/coredns/caddy"
	"github.com/coredns/coredns/core/dnsserver"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	if len(os.Args) != 2 {
		fail("the one argument is the Corefile")
	}
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		fail(err)
	}
	dnsserver.Port = "53"
	caddy.AppName = "coredns"
	caddy.TrapSignals()
	corefile := caddy.CaddyfileInput{Contents: text, Filepath: os.Args[1], ServerTypeName: "dns"}
	instance, err := caddy.Start(corefile)
	if err != nil {
		fail(err)
	}
	instance.Wait()
}

func fail(why any) {
	fmt.Fprintln(os.Stderr, why)
	os.Exit(1)
}
