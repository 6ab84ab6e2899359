package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// gpuServer offers devices that do not exist, over the kubelet's real device plugin interface.
// An id that stands in the file `unhealthy` is reported unhealthy for as long as it stands there.
type gpuServer struct {
	api.UnimplementedDevicePluginServer
	ids       []string
	unhealthy string
}

func (s *gpuServer) devices() []*api.Device {
	broken := map[string]bool{}
	if text, err := os.ReadFile(s.unhealthy); err == nil { // no file: all are well
		for _, id := range strings.Fields(string(text)) {
			broken[id] = true
		}
	}
	var devices []*api.Device
	for _, id := range s.ids {
		health := api.Healthy
		if broken[id] {
			health = api.Unhealthy
		}
		devices = append(devices, &api.Device{ID: id, Health: health})
	}
	return devices
}

func (s *gpuServer) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

func (s *gpuServer) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	told := ""
	for {
		devices := s.devices()
		if now := fmt.Sprint(devices); now != told {
			if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
				return err
			}
			told = now
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (s *gpuServer) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	response := &api.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		ids := strings.Join(container.DevicesIds, ",")
		log.Printf("allocated %s", ids)
		response.ContainerResponses = append(response.ContainerResponses, &api.ContainerAllocateResponse{
			Envs: map[string]string{"NVIDIA_VISIBLE_DEVICES": ids},
		})
	}
	return response, nil
}

func runGPUPlugin() int {
	resource := flag.String("resource", "nvidia.com/gpu", "name of the extended resource")
	count := flag.Int("count", 2, "how many devices to offer")
	folder := flag.String("dir", api.DevicePluginPath, "the kubelet's folder for device plugins")
	unhealthy := flag.String("unhealthy", "", "file that names the devices that are unhealthy now")
	flag.Parse()

	server := &gpuServer{unhealthy: *unhealthy}
	for i := range *count {
		server.ids = append(server.ids, fmt.Sprintf("GPU-fake-%d", i))
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
	for {
		if err := server.serve(*folder, *resource, end); err == nil {
			return 0
		} else {
			log.Printf("registering again: %v", err)
		}
		select {
		case <-end:
			return 0
		case <-time.After(time.Second):
		}
	}
}

// serve offers the devices until `end`, or until the kubelet starts anew: it empties the folder
// then and knows the plugin no more.
func (s *gpuServer) serve(folder, resource string, end <-chan os.Signal) error {
	socket := filepath.Join(folder, strings.ReplaceAll(resource, "/", "_")+".sock")
	if err := os.Remove(socket); err != nil && !os.IsNotExist(err) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	api.RegisterDevicePluginServer(server, s)
	go server.Serve(listener)
	defer server.Stop()
	if err := register(folder, filepath.Base(socket), resource); err != nil {
		return err
	}
	for {
		select {
		case <-end:
			return nil
		case <-time.After(time.Second):
			if _, err := os.Stat(socket); err != nil {
				return err
			}
		}
	}
}

func register(folder, endpoint, resource string) error {
	address := "unix://" + filepath.Join(folder, "kubelet.sock")
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	if _, err = api.NewRegistrationClient(connection).Register(ctx, request); err == nil {
		log.Printf("registered %s", resource)
	}
	return err
}
