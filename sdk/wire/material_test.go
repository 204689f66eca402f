package wire_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	"github.com/gantry-agent/gantry/sdk/wire"
)

func TestMaterialsArePlainP256(t *testing.T) {
	server, client, err := wire.NewMaterials()
	if err != nil {
		t.Fatal(err)
	}
	if server.CA != client.CA || server.Key == client.Key {
		t.Error("the sides must share their authority and nothing else")
	}
	parse := func(s string) *x509.Certificate {
		t.Helper()
		b, rest := pem.Decode([]byte(s))
		if b == nil || len(rest) > 0 {
			t.Fatal("not one PEM block")
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if k, ok := c.PublicKey.(*ecdsa.PublicKey); !ok || k.Curve != elliptic.P256() {
			t.Errorf("the key of %v is not P-256", c.Subject)
		}
		return c
	}
	ca := parse(server.CA)
	for m, usage := range map[*wire.Material]x509.ExtKeyUsage{server: x509.ExtKeyUsageServerAuth, client: x509.ExtKeyUsageClientAuth} {
		c := parse(m.Cert)
		if err := c.CheckSignatureFrom(ca); err != nil {
			t.Error(err)
		}
		if !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{usage}) || c.IsCA {
			t.Errorf("usage %v, authority %v", c.ExtKeyUsage, c.IsCA)
		}
	}
	for name, m := range map[string]*wire.Material{"none": nil, "empty": {}, "mixed": {CA: server.CA, Cert: server.Cert, Key: client.Key}, "no CA": {Cert: server.Cert, Key: server.Key}} {
		if _, err := wire.ServerTLS(m); err == nil {
			t.Errorf("%s: accepted as a server's", name)
		}
		if _, err := wire.ClientTLS(m); err == nil {
			t.Errorf("%s: accepted as a client's", name)
		}
	}
}
