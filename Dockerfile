# The image of zsidecar. It takes the place of Zaino's: the same user, folders, ports, entrypoint and arguments.
# Nothing but the program, a shell for health checks, and the certificates of public authorities is in it.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --tag zsidecar .
ARG GO_VERSION=1.26
FROM --platform=$BUILDPLATFORM docker.io/library/golang:${GO_VERSION}-bookworm AS build
ARG TARGETARCH
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN deploy/image/build.sh "$TARGETARCH" /out/zsidecar
# The shell of the target's architecture is unpacked, not installed: nothing of it runs here.
WORKDIR /out
RUN dpkg --add-architecture "$TARGETARCH" && apt-get update -qq && apt-get download -qq "bash-static:$TARGETARCH" && \
    dpkg-deb -x bash-static_*.deb /out/bash
RUN /src/deploy/image/rootfs.sh /rootfs /out/zsidecar /out/bash/bin/bash-static /etc/ssl/certs/ca-certificates.crt

FROM scratch
LABEL org.opencontainers.image.title="zsidecar" \
      org.opencontainers.image.description="Serves Zcash light wallets beside a Zebra node" \
      org.opencontainers.image.licenses="MIT OR Apache-2.0"
COPY --from=build /rootfs/root/ /
COPY --from=build --chown=1000:1000 /rootfs/user/ /
ENV HOME=/home/container_user PATH=/usr/local/bin:/bin
USER 1000:1000
WORKDIR /home/container_user
EXPOSE 8137 8237
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s --retries=3 CMD ["/usr/local/bin/zainod", "--version"]
ENTRYPOINT ["/entrypoint.sh"]
CMD ["start"]
