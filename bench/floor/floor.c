// The floor: what a server that goes through TCP sockets can hardly undercut. One epoll loop, one recv and one send of a
// fixed response per request; requests are counted by the empty line that ends a head, so that 16 pipelined ones get
// one send. It checks nothing, and serves nothing but measurements.
//
// Usage: floor [-s BODY_BYTES] [-c] [PORT]
//   -s  body of each response (default 1024)
//   -c  answer with "Connection: close", and close
//   PORT 0 (the default) lets the kernel choose; the port is printed as "listening PORT".
// Build: cc -O2 -Wall -Wextra -o floor floor.c

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 65536, EVENTS_MAX = 512, COPIES_MAX = 64, COPIED_BODY_BYTES_MAX = 16384 };

// What a connection still has to receive; all zero for a fresh one.
struct connection {
    uint64_t unsent;   // bytes of responses that did not fit into the socket's buffer
    uint32_t in_head;  // bytes of "\r\n\r\n" that the last read ended with
    int waits_to_send; // registered for EPOLLOUT instead of EPOLLIN
};

static struct connection connections[CONNECTIONS_MAX];
static char received[65536];
static char *responses;       // `copies` responses one after the other, so that several leave in one send
static uint64_t response_bytes;
static uint64_t copies;
static int closes;

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void prepare(size_t body_bytes) {
    char head[256];
    int head_bytes = snprintf(head, sizeof head,
                              "HTTP/1.1 200 OK\r\nDate: Fri, 20 Nov 2026 12:00:00 GMT\r\nContent-Type: text/plain\r\n"
                              "Content-Length: %zu\r\nConnection: %s\r\n\r\n",
                              body_bytes, closes ? "close" : "keep-alive");
    response_bytes = (uint64_t)head_bytes + body_bytes;
    copies = body_bytes <= COPIED_BODY_BYTES_MAX ? COPIES_MAX : 1;
    responses = malloc(response_bytes * copies);
    if (responses == NULL) fail("malloc");
    memset(responses, 'x', response_bytes * copies);
    for (uint64_t copy = 0; copy < copies; copy++) memcpy(responses + copy * response_bytes, head, (size_t)head_bytes);
}

// Counts the heads that end in `bytes`, the first of which may have begun in an earlier read.
static uint32_t count_heads(struct connection *connection, const char *bytes, size_t length) {
    static const char end[4] = "\r\n\r\n";
    // The usual case: whole heads. The last four bytes end one, and memmem finds the others.
    uint32_t heads = 0;
    if (connection->in_head == 0 && length >= 4 && memcmp(bytes + length - 4, end, 4) == 0) {
        const char *at = bytes, *stop = bytes + length;
        while ((at = memmem(at, (size_t)(stop - at), end, 4)) != NULL) {
            heads++;
            at += 4;
        }
        return heads;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == end[connection->in_head]) connection->in_head++;
        else connection->in_head = bytes[i] == '\r';
        if (connection->in_head == 4) {
            heads++;
            connection->in_head = 0;
        }
    }
    return heads;
}

static void drop(int fd) {
    close(fd);
    connections[fd] = (struct connection){0};
}

static void wait_for(int epoll, int fd, int to_send) {
    if (connections[fd].waits_to_send == to_send) return;
    connections[fd].waits_to_send = to_send;
    struct epoll_event event = {.events = (to_send ? EPOLLOUT : EPOLLIN) | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) < 0) fail("epoll_ctl");
}

// Sends until all is out or the socket is full.
static void send_responses(int epoll, int fd) {
    struct connection *connection = &connections[fd];
    while (connection->unsent > 0) {
        uint64_t offset = (response_bytes - connection->unsent % response_bytes) % response_bytes;
        uint64_t length = response_bytes * copies - offset;
        if (length > connection->unsent) length = connection->unsent;
        ssize_t sent = send(fd, responses + offset, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN) return wait_for(epoll, fd, 1);
        if (sent < 0) return drop(fd);
        connection->unsent -= (uint64_t)sent;
    }
    if (closes) return drop(fd);
    wait_for(epoll, fd, 0);
}

static void receive(int epoll, int fd) {
    ssize_t got;
    do {
        got = recv(fd, received, sizeof received, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return drop(fd);
        uint32_t heads = count_heads(&connections[fd], received, (size_t)got);
        connections[fd].unsent += heads * response_bytes;
        if (heads > 0) send_responses(epoll, fd);
        // A short read has drained the socket: the next edge is still to come.
    } while (got == sizeof received && !connections[fd].waits_to_send);
}

static void accept_all(int epoll, int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= CONNECTIONS_MAX) {
            close(fd);
            continue;
        }
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        // Edges: with levels, every wait polls once more each socket that the last one reported (about 8 % here).
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
    }
}

static int listen_on(uint16_t port) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(listener, 4096) < 0) fail("listen");
    socklen_t length = sizeof address;
    if (getsockname(listener, (struct sockaddr *)&address, &length) < 0) fail("getsockname");
    printf("listening %d\n", ntohs(address.sin_port));
    fflush(stdout);
    return listener;
}

static void serve(int listener) {
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = listener};
    if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0) fail("epoll");
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int ready = epoll_wait(epoll, events, EVENTS_MAX, -1);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) accept_all(epoll, listener);
            else if (connections[fd].waits_to_send) send_responses(epoll, fd);
            else receive(epoll, fd);
        }
    }
}

int main(int argc, char **argv) {
    size_t body_bytes = 1024;
    int option;
    while ((option = getopt(argc, argv, "s:c")) != -1) {
        if (option == 's') body_bytes = strtoul(optarg, NULL, 10);
        else if (option == 'c') closes = 1;
        else return 2;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    prepare(body_bytes);
    serve(listen_on(optind < argc ? (uint16_t)atoi(argv[optind]) : 0));
}
