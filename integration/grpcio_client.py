"""Reads a block range through grpcio, a gRPC stack that shares nothing with the server's.

Usage: grpcio_client.py STUBS ADDRESS METHOD START END [POOL...]

STUBS is a folder with the Python code generated from proto/. Prints one JSON object: the status code, the number of messages, the
heights of the first and the last one, and the SHA-256 over every message, each preceded by its length as 8 big-endian bytes.
"""

import hashlib
import json
import sys

import grpc


def main() -> None:
    stubs, address, method, start, end, *pools = sys.argv[1:]
    sys.path.insert(0, stubs)
    import compact_formats_pb2
    import service_pb2

    request = service_pb2.BlockRange(
        start=service_pb2.BlockID(height=int(start)),
        end=service_pb2.BlockID(height=int(end)),
        poolTypes=[int(pool) for pool in pools],
    )
    digest, heights, code = hashlib.sha256(), [], "OK"
    with grpc.insecure_channel(address) as channel:
        # Without a deserializer a message arrives as the bytes that were sent.
        call = channel.unary_stream(
            "/cash.z.wallet.sdk.rpc.CompactTxStreamer/" + method,
            request_serializer=service_pb2.BlockRange.SerializeToString,
        )
        try:
            for message in call(request, timeout=60):
                digest.update(len(message).to_bytes(8, "big") + message)
                heights.append(compact_formats_pb2.CompactBlock.FromString(message).height)
        except grpc.RpcError as error:
            code = error.code().name
    print(
        json.dumps(
            {
                "code": code,
                "count": len(heights),
                "first": heights[0] if heights else -1,
                "last": heights[-1] if heights else -1,
                "sha256": digest.hexdigest(),
            }
        )
    )


if __name__ == "__main__":
    main()
