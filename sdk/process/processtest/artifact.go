package processtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	gantryv1 "github.com/gantry-agent/gantry/sdk/proto/gantry/v1"
)

// Artifact is stored content.
type Artifact struct {
	Name, MediaType string
	Data            []byte
}

// Artifact returns what was stored under a digest.
func (h *Host) Artifact(sha256 string) (Artifact, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a, ok := h.mu.artifacts[sha256]
	return a, ok
}

// PutArtifact implements HostService.
func (h *Host) PutArtifact(stream gantryv1.HostService_PutArtifactServer) error {
	var a Artifact
	var data bytes.Buffer
	for first := true; ; first = false {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first {
			a.Name, a.MediaType = m.GetName(), m.GetMediaType()
		}
		data.Write(m.GetData())
	}
	a.Data = data.Bytes()
	sum := sha256.Sum256(a.Data)
	digest := hex.EncodeToString(sum[:])
	h.mu.Lock()
	h.mu.artifacts[digest] = a
	h.mu.Unlock()
	return stream.SendAndClose(&gantryv1.PutArtifactResponse{Artifact: &gantryv1.ArtifactRef{
		Sha256: digest, SizeBytes: int64(len(a.Data)), MediaType: a.MediaType, Name: a.Name,
	}})
}

// GetArtifact implements HostService.
func (h *Host) GetArtifact(req *gantryv1.GetArtifactRequest, stream gantryv1.HostService_GetArtifactServer) error {
	a, ok := h.Artifact(req.GetSha256())
	if !ok {
		return status.Errorf(codes.NotFound, "no artifact %s", req.GetSha256())
	}
	for data := a.Data; ; {
		n := min(len(data), 64<<10)
		if err := stream.Send(&gantryv1.GetArtifactResponse{Data: data[:n]}); err != nil {
			return err
		}
		if data = data[n:]; len(data) == 0 {
			return nil
		}
	}
}
