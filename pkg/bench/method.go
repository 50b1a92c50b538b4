package bench

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/zsidecar/zsidecar/proto/walletrpc"
)

// callLimit is how long a call may take, a stream that is only counted from each message on: a server that is slower than that, or that
// hangs, is at fault.
const callLimit = 2 * time.Minute

// pathOf is where a method of the wallet protocol is called.
func pathOf(method string) string {
	return "/" + walletrpc.CompactTxStreamer_ServiceDesc.ServiceName + "/" + method
}

// method is what is known of a method of the wallet protocol.
type method struct {
	name   string
	stream bool // it answers with any number of messages
	output protoreflect.MessageType
}

// methodNamed looks a method up. One that does not exist is a mistake of this package.
func methodNamed(name string) method {
	m := walletrpc.File_service_proto.Services().ByName("CompactTxStreamer").Methods().ByName(protoreflect.Name(name))
	output, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		panic(err)
	}
	return method{name: name, stream: m.IsStreamingServer(), output: output}
}

// answer returns an empty message of the kind that the method answers with.
func (m method) answer() proto.Message { return m.output.New().Interface() }
