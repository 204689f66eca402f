package wire

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"
)

// tlsName is the name in both certificates, the one that other implementations of go-plugin expect.
const tlsName = "localhost"

// certificateLifetime is longer than any host process runs. Certificates are not stored.
const certificateLifetime = 365 * 24 * time.Hour

// Material is one side's key material for mutual TLS, as PEM: the only trusted authority, and the side's own certificate
// and key, all P-256.
type Material struct {
	CA   string `json:"ca"`
	Cert string `json:"cert"`
	Key  string `json:"key"`
}

// String hides the key.
func (m *Material) String() string { return "tls material" }

// GoString hides the key.
func (m *Material) GoString() string { return "wire.Material{…}" }

// NewMaterials creates an ephemeral authority and one certificate for each side. The authority's key is discarded
// immediately, so that it can't sign anything else.
func NewMaterials() (server, client *Material, err error) {
	now := time.Now()
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make authority: %w", err)
	}
	ca := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "gantry"},
		NotBefore:             now.Add(-time.Minute),
		NotAfter:              now.Add(certificateLifetime),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	if ca.SerialNumber, err = serial(); err != nil {
		return nil, nil, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("make authority: %w", err)
	}
	caPEM := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER}))

	leaf := func(usage x509.ExtKeyUsage) (*Material, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		tmpl := &x509.Certificate{
			Subject:     pkix.Name{CommonName: tlsName},
			DNSNames:    []string{tlsName},
			NotBefore:   ca.NotBefore,
			NotAfter:    ca.NotAfter,
			KeyUsage:    x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{usage},
		}
		if tmpl.SerialNumber, err = serial(); err != nil {
			return nil, err
		}
		der, err := x509.CreateCertificate(rand.Reader, tmpl, ca, &key.PublicKey, caKey)
		if err != nil {
			return nil, fmt.Errorf("make certificate: %w", err)
		}
		keyDER, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encode key: %w", err)
		}
		return &Material{
			CA:   caPEM,
			Cert: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
			Key:  string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})),
		}, nil
	}
	if server, err = leaf(x509.ExtKeyUsageServerAuth); err != nil {
		return nil, nil, err
	}
	if client, err = leaf(x509.ExtKeyUsageClientAuth); err != nil {
		return nil, nil, err
	}
	return server, client, nil
}

func serial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return n, nil
}

// ClientTLS returns the TLS configuration of the dialing side.
func ClientTLS(m *Material) (*tls.Config, error) {
	cert, pool, err := m.load()
	if err != nil {
		return nil, err
	}
	cfg := baseTLS(cert)
	cfg.RootCAs = pool
	cfg.ServerName = tlsName
	return cfg, nil
}

// ServerTLS returns the TLS configuration of the listening side. It requires a certificate of the same authority.
func ServerTLS(m *Material) (*tls.Config, error) {
	cert, pool, err := m.load()
	if err != nil {
		return nil, err
	}
	cfg := baseTLS(cert)
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	cfg.ClientCAs = pool
	return cfg, nil
}

func baseTLS(cert tls.Certificate) *tls.Config {
	return &tls.Config{
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS13,
		// No post-quantum key exchange: it would delay the start, and local traffic doesn't need it.
		CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
		// Connections are not resumed, and tickets would delay the first bytes.
		SessionTicketsDisabled: true,
	}
}

func (m *Material) load() (tls.Certificate, *x509.CertPool, error) {
	if m == nil {
		return tls.Certificate{}, nil, errors.New("load tls material: missing")
	}
	cert, err := tls.X509KeyPair([]byte(m.Cert), []byte(m.Key))
	if err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("load tls certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(m.CA)) {
		return tls.Certificate{}, nil, errors.New("load tls authority: it contains no certificate")
	}
	return cert, pool, nil
}
