package integration

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/zsidecar/zsidecar/internal/servertest"
	"github.com/zsidecar/zsidecar/pkg/chain"
	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// startConstantServer runs a process that answers each method with the given bytes, which are frames for a range.
func startConstantServer(b *testing.B, answers map[string][]byte) (p *process, addr string) {
	b.Helper()
	addr = servertest.FreeAddr(b)
	args := []string{addr}
	for method, answer := range answers {
		file := filepath.Join(b.TempDir(), method)
		if err := os.WriteFile(file, answer, 0o600); err != nil {
			b.Fatal(err)
		}
		args = append(args, method+"="+file)
	}
	p = startHelper(b, constantServerHelper, args...)
	await(b, "the constant server listens", 5*time.Second, func() bool {
		if !p.running() {
			b.Fatalf("the constant server ended at once:\n%s", p.output.tail(4000))
		}
		return listening(addr)
	})
	return p, addr
}

// constantServer answers with messages that it does not have to make.
type constantServer struct {
	walletrpc.UnimplementedCompactTxStreamerServer
	block  *walletrpc.CompactBlock
	latest *walletrpc.BlockID
	info   *walletrpc.LightdInfo
	frames []byte
}

func (s *constantServer) GetBlock(context.Context, *walletrpc.BlockID) (*walletrpc.CompactBlock, error) {
	return s.block, nil
}

func (s *constantServer) GetLatestBlock(context.Context, *walletrpc.ChainSpec) (*walletrpc.BlockID, error) {
	return s.latest, nil
}

func (s *constantServer) GetLightdInfo(context.Context, *walletrpc.Empty) (*walletrpc.LightdInfo, error) {
	return s.info, nil
}

// GetBlockRange writes frames in runs, straight to grpc-go's transport as zsidecar does.
func (s *constantServer) GetBlockRange(_ *walletrpc.BlockRange, stream grpc.ServerStreamingServer[walletrpc.CompactBlock]) error {
	write := reflect.ValueOf(grpc.ServerTransportStreamFromContext(stream.Context())).MethodByName("Write")
	options := reflect.Zero(write.Type().In(2))
	for run := range slices.Chunk(s.frames, chain.RunSize) {
		data := mem.BufferSlice{mem.SliceBuffer(run)}
		results := write.Call([]reflect.Value{reflect.ValueOf([]byte(nil)), reflect.ValueOf(data), options})
		if err, _ := results[0].Interface().(error); err != nil {
			return err
		}
	}
	return nil
}

// runConstantServer serves until the process is killed: plain grpc-go with the buffers and windows of zsidecar's own server. Its arguments
// are the address, and METHOD=FILE for each answer.
func runConstantServer(args []string) error {
	s := &constantServer{block: &walletrpc.CompactBlock{}, latest: &walletrpc.BlockID{}, info: &walletrpc.LightdInfo{}}
	messages := map[string]proto.Message{getBlock: s.block, "GetLatestBlock": s.latest, "GetLightdInfo": s.info}
	for _, arg := range args[1:] {
		method, file, _ := strings.Cut(arg, "=")
		answer, err := os.ReadFile(file)
		switch {
		case err != nil:
			return err
		case method == getBlockRange:
			s.frames = answer
		case messages[method] == nil:
			return fmt.Errorf("there is no constant for %q", method)
		default:
			// As an unknown field the bytes are only copied when the message is sent.
			messages[method].ProtoReflect().SetUnknown(answer)
		}
	}
	lis, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	server := grpc.NewServer(
		grpc.MaxConcurrentStreams(256),
		grpc.StaticStreamWindowSize(256<<10),
		grpc.StaticConnWindowSize(1<<20),
		grpc.WriteBufferSize(64<<10),
		grpc.ReadBufferSize(8<<10),
	)
	walletrpc.RegisterCompactTxStreamerServer(server, s)
	return server.Serve(lis)
}
