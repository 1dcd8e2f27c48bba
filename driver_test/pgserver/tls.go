package pgserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificateLife covers the longest run; the hour before now covers a clock that is set back.
const certificateLife = 24 * time.Hour

// writeCertificates puts a CA's certificate and the server's certificate and key into the data directory, where the
// server looks for the last two by default and where a base backup takes them along. It returns the CA's file.
func (l *local) writeCertificates() (ca string, err error) {
	caCert, caKey, err := certificate(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "pgserver test CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}, nil, nil)
	if err != nil {
		return "", err
	}
	cert, key, err := certificate(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, caCert, caKey)
	if err != nil {
		return "", err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return "", err
	}
	ca = filepath.Join(l.data, "ca.crt")
	return ca, errors.Join(
		l.writePEM("ca.crt", "CERTIFICATE", caCert.Raw),
		l.writePEM("server.crt", "CERTIFICATE", cert.Raw),
		l.writePEM("server.key", "PRIVATE KEY", keyDER),
	)
}

// certificate signs template with the parent's key, or with its own if parent is nil.
func certificate(
	template, parent *x509.Certificate, parentKey *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(certificateLife)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return cert, key, err
}

// writePEM gives nobody else the right to read: the server refuses a key that others can.
func (l *local) writePEM(name, block string, der []byte) error {
	path := filepath.Join(l.data, name)
	text := pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der})
	return errors.Join(os.WriteFile(path, text, 0o600), l.account.own(path))
}
