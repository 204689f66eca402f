package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/gantry-agent/gantry/providers/route"
	"github.com/gantry-agent/gantry/sdk/configblock"
)

// service is Bedrock's name in a signature.
const service = "bedrock"

// signature signs requests with an account's credentials (AWS Signature Version 4). Each attempt is signed separately, because a
// signature expires after a few minutes.
type signature struct {
	signer            *v4.Signer
	region            string
	id, secret, token configblock.Secret
}

var _ route.Auth = (*signature)(nil)

func newSignature(cfg *config) *signature {
	return &signature{
		signer: v4.NewSigner(), region: cfg.Region, id: cfg.AccessKeyID, secret: cfg.SecretAccessKey, token: cfg.SessionToken,
	}
}

// Apply implements [route.Auth]. It signs only what no proxy may change: the address, the body and its type.
func (s *signature) Apply(ctx context.Context, o *route.Outgoing) error {
	credentials, err := s.credentials(ctx, o)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, o.Method, o.URL.String(), nil)
	if err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	sum := sha256.Sum256(o.Body)
	if err := s.signer.SignHTTP(ctx, credentials, r, hex.EncodeToString(sum[:]), service, s.region, time.Now()); err != nil {
		return fmt.Errorf("sign the request: %w", err)
	}
	for _, name := range []string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		if v := r.Header.Get(name); v != "" {
			o.Header.Set(name, v)
		}
	}
	return nil
}

func (s *signature) credentials(ctx context.Context, o *route.Outgoing) (c aws.Credentials, err error) {
	for _, part := range []struct {
		name string
		from configblock.Secret
		to   *string
	}{
		{"access_key_id", s.id, &c.AccessKeyID}, {"secret_access_key", s.secret, &c.SecretAccessKey}, {"session_token", s.token, &c.SessionToken},
	} {
		if part.from.IsZero() {
			continue
		}
		if *part.to, err = part.from.Value(ctx); err != nil {
			return c, fmt.Errorf("%s: %w", part.name, err)
		}
		if *part.to == "" && part.to != &c.SessionToken {
			return c, fmt.Errorf("%s is empty: set its variable in the environment of gantry", part.name)
		}
		if *part.to != "" {
			o.Secret(*part.to)
		}
	}
	return c, nil
}
