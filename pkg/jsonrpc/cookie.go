package jsonrpc

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	cookieName = ".cookie"
	cookieUser = "__cookie__:"
)

// Cookie is a file with the password that requests must bring, as Zebra writes one for its own: only those who may read it may ask.
type Cookie struct {
	Secret string
	path   string
	text   string
}

// WriteCookie makes a new password and writes it into the file .cookie of a folder, which is made if need be. The file is the owner's
// alone; one that another run has left is replaced, a link is refused, since it could lead to somebody else's file.
func WriteCookie(dir string) (*Cookie, error) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails
	c := &Cookie{Secret: base64.StdEncoding.EncodeToString(random), path: filepath.Join(dir, cookieName)}
	c.text = cookieUser + c.Secret
	if err := c.write(dir); err != nil {
		return nil, fmt.Errorf("write the cookie of the JSON-RPC server: %w", err)
	}
	return c, nil
}

func (c *Cookie) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	switch info, err := os.Lstat(c.path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file but %s: remove it", c.path, info.Mode().Type())
	default:
		if err := os.Remove(c.path); err != nil {
			return err
		}
	}
	// O_EXCL: what has come there meanwhile is not followed.
	f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(c.text)
	return errors.Join(err, f.Close())
}

// Path is where the file is.
func (c *Cookie) Path() string { return c.path }

// Remove deletes the file, unless another run has replaced it.
func (c *Cookie) Remove() error {
	text, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(text) != c.text {
		return nil
	}
	return errors.Join(err, os.Remove(c.path))
}
