//go:build tools

// Package helm pins Helm. Its command is not importable, so it is built by name from this module.
package helm

import _ "helm.sh/helm/v3/pkg/action"
