// The floor for TLS and for HTTP/2: one epoll loop, one recv for all that a client has sent, OpenSSL between two buffers in
// memory, one send for all answers. It checks nothing (no flow control either, so clients need large windows, as h2load has
// them), and serves nothing but measurements. HTTP/1.1 in cleartext is in floor.c.
//
// Usage: floor-secure [-s BODY_BYTES] [-c] [-2] [-t CERTIFICATE KEY] [PORT]
//   -s  body of each response (default 1024)
//   -c  answer HTTP/1.1 with "Connection: close", and close
//   -2  HTTP/2: by prior knowledge, or by ALPN with -t
//   -t  TLS 1.3 without resumption
//   PORT 0 (the default) lets the kernel choose; the port is printed as "listening PORT".
// Build: cc -O2 -Wall -Wextra -o floor-secure floor-secure.c -lssl -lcrypto

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 65536, EVENTS_MAX = 512, FRAME_HEADER_BYTES = 9, FRAME_BYTES_MAX = 16384, PREFACE_BYTES = 24 };
enum { UNSENT_BYTES_MAX = 1 << 18 }; // what one connection keeps; other streams are answered when that is out
enum { DATA = 0, HEADERS = 1, SETTINGS = 4, ACK = 1, END_STREAM = 1, END_HEADERS = 4 };

struct bytes {
    char *start;
    size_t length, capacity, sent;
};

struct connection {
    SSL *ssl;
    BIO *in, *out;        // of `ssl`
    struct bytes answers; // before encryption
    struct bytes unsent;  // after it, or without it
    struct bytes waiting; // HTTP/2: identifiers of streams that have asked, four bytes each
    uint64_t in_head;     // HTTP/1.1: bytes of "\r\n\r\n" that the last read ended with
    uint64_t skip;        // HTTP/2: bytes of the preface or of a frame that are of no interest
    uint8_t header[FRAME_HEADER_BYTES];
    size_t header_bytes;
    int greeted, waits_to_send;
};

static struct connection *connections[CONNECTIONS_MAX];
static char received[65536], plain[65536];
static char *response, *body;
static size_t response_bytes, body_bytes = 1024;
static int closes, http2;
static SSL_CTX *tls;
static const uint8_t date[] = "Fri, 20 Nov 2026 12:00:00 GMT";

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static void append(struct bytes *bytes, const void *more, size_t length) {
    if (bytes->length + length > bytes->capacity) {
        bytes->capacity = (bytes->length + length) * 2;
        bytes->start = realloc(bytes->start, bytes->capacity);
        if (bytes->start == NULL) fail("realloc");
    }
    memcpy(bytes->start + bytes->length, more, length);
    bytes->length += length;
}

static void append_frame_header(struct bytes *bytes, size_t length, uint8_t type, uint8_t flags, const uint8_t *stream) {
    uint8_t header[FRAME_HEADER_BYTES] = {(uint8_t)(length >> 16), (uint8_t)(length >> 8), (uint8_t)length, type, flags,
                                          stream[0], stream[1], stream[2], stream[3]};
    append(bytes, header, sizeof header);
}

// HEADERS with four fields by the static table (RFC 7541 appendix A), and DATA.
static void append_response(struct bytes *bytes, const uint8_t *stream) {
    char length[24];
    int digits = snprintf(length, sizeof length, "%zu", body_bytes);
    uint8_t block[128], *at = block;
    *at++ = 0x88; // :status 200
    memcpy(at, "\x0f\x10\x0atext/plain\x0f\x12", 15), at += 15;
    *at++ = sizeof date - 1;
    memcpy(at, date, sizeof date - 1), at += sizeof date - 1;
    *at++ = 0x0f, *at++ = 0x0d, *at++ = (uint8_t)digits;
    memcpy(at, length, (size_t)digits), at += digits;
    append_frame_header(bytes, (size_t)(at - block), HEADERS, END_HEADERS, stream);
    append(bytes, block, (size_t)(at - block));
    for (size_t offset = 0; offset < body_bytes; offset += FRAME_BYTES_MAX) {
        size_t part = body_bytes - offset < FRAME_BYTES_MAX ? body_bytes - offset : FRAME_BYTES_MAX;
        append_frame_header(bytes, part, DATA, offset + part == body_bytes ? END_STREAM : 0, stream);
        append(bytes, body + offset, part);
    }
}

static void take_frame(struct connection *connection) {
    static const uint8_t whole_connection[4];
    const uint8_t *header = connection->header;
    connection->skip = (uint64_t)header[0] << 16 | (uint64_t)header[1] << 8 | header[2];
    connection->header_bytes = 0;
    if (header[3] == HEADERS) append(&connection->waiting, header + 5, 4);
    if (header[3] == SETTINGS && !(header[4] & ACK))
        append_frame_header(&connection->answers, 0, SETTINGS, ACK, whole_connection);
}

// Answers streams, as many as there is room for.
static void answer(struct connection *connection) {
    struct bytes *waiting = &connection->waiting;
    while (waiting->sent < waiting->length && connection->answers.length < UNSENT_BYTES_MAX) {
        append_response(&connection->answers, (uint8_t *)waiting->start + waiting->sent);
        waiting->sent += 4;
    }
    if (waiting->sent == waiting->length) waiting->length = waiting->sent = 0;
}

static void take_http2(struct connection *connection, const char *bytes, size_t length) {
    static const uint8_t whole_connection[4];
    if (!connection->greeted) {
        connection->greeted = 1;
        connection->skip = PREFACE_BYTES;
        append_frame_header(&connection->answers, 0, SETTINGS, 0, whole_connection);
    }
    while (length > 0) {
        if (connection->skip > 0) {
            size_t part = connection->skip < length ? connection->skip : length;
            connection->skip -= part, bytes += part, length -= part;
            continue;
        }
        size_t part = FRAME_HEADER_BYTES - connection->header_bytes;
        if (part > length) part = length;
        memcpy(connection->header + connection->header_bytes, bytes, part);
        connection->header_bytes += part, bytes += part, length -= part;
        if (connection->header_bytes == FRAME_HEADER_BYTES) take_frame(connection);
    }
}

static void take_http1(struct connection *connection, const char *bytes, size_t length) {
    static const char end[4] = "\r\n\r\n";
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == end[connection->in_head]) connection->in_head++;
        else connection->in_head = bytes[i] == '\r';
        if (connection->in_head < 4) continue;
        append(&connection->answers, response, response_bytes);
        connection->in_head = 0;
    }
}

static void take(struct connection *connection, const char *bytes, size_t length) {
    if (http2) take_http2(connection, bytes, length);
    else take_http1(connection, bytes, length);
}

static void drop(int fd) {
    struct connection *connection = connections[fd];
    close(fd);
    if (connection->ssl != NULL) SSL_free(connection->ssl);
    free(connection->answers.start);
    free(connection->unsent.start);
    free(connection->waiting.start);
    free(connection);
    connections[fd] = NULL;
}

static void wait_for(int epoll, int fd, int to_send) {
    if (connections[fd]->waits_to_send == to_send) return;
    connections[fd]->waits_to_send = to_send;
    struct epoll_event event = {.events = (to_send ? EPOLLOUT : EPOLLIN) | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event) < 0) fail("epoll_ctl");
}

// Whether there was an answer. Moves answers to `unsent`, encrypted if need be.
static int encrypt(struct connection *connection) {
    struct bytes *answers = &connection->answers;
    int answered = answers->length > 0;
    if (connection->ssl == NULL) {
        struct bytes swapped = connection->unsent;
        if (swapped.length > 0) append(&connection->unsent, answers->start, answers->length);
        else connection->unsent = *answers, *answers = swapped;
    } else {
        if (answered && SSL_write(connection->ssl, answers->start, (int)answers->length) <= 0) return -1;
        if (answered && closes) SSL_shutdown(connection->ssl);
        char *encrypted;
        long bytes = BIO_get_mem_data(connection->out, &encrypted);
        if (bytes > 0) append(&connection->unsent, encrypted, (size_t)bytes);
        (void)BIO_reset(connection->out);
    }
    answers->length = 0;
    return answered;
}

// Whether the connection lives on. Sends until all is out or the socket is full.
static int send_all(int epoll, int fd, int last) {
    struct connection *connection = connections[fd];
    struct bytes *unsent = &connection->unsent;
    do {
        while (unsent->sent < unsent->length) {
            ssize_t sent = send(fd, unsent->start + unsent->sent, unsent->length - unsent->sent, MSG_NOSIGNAL);
            if (sent < 0 && errno == EAGAIN) return wait_for(epoll, fd, 1), 1;
            if (sent < 0) return drop(fd), 0;
            unsent->sent += (size_t)sent;
        }
        unsent->length = unsent->sent = 0;
        answer(connection);
        if (connection->answers.length > 0 && encrypt(connection) < 0) return drop(fd), 0;
    } while (unsent->length > 0);
    if (last) return drop(fd), 0;
    return wait_for(epoll, fd, 0), 1;
}

static void receive(int epoll, int fd) {
    struct connection *connection = connections[fd];
    ssize_t got;
    do {
        got = recv(fd, received, sizeof received, 0);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return drop(fd);
        if (connection->ssl == NULL) {
            take(connection, received, (size_t)got);
        } else {
            BIO_write(connection->in, received, (int)got);
            int bytes;
            while ((bytes = SSL_read(connection->ssl, plain, sizeof plain)) > 0) take(connection, plain, (size_t)bytes);
            int error = SSL_get_error(connection->ssl, bytes);
            if (error != SSL_ERROR_WANT_READ && error != SSL_ERROR_ZERO_RETURN) return drop(fd);
        }
        if (connection->unsent.length == 0) answer(connection);
        int answered = encrypt(connection);
        if (answered < 0) return drop(fd);
        if (!send_all(epoll, fd, answered && closes)) return;
        // A short read has drained the socket: the next edge is still to come.
    } while (got == sizeof received && !connection->waits_to_send);
}

static struct connection *new_connection(void) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) fail("calloc");
    if (tls == NULL) return connection;
    connection->ssl = SSL_new(tls);
    connection->in = BIO_new(BIO_s_mem());
    connection->out = BIO_new(BIO_s_mem());
    SSL_set_bio(connection->ssl, connection->in, connection->out);
    SSL_set_accept_state(connection->ssl);
    return connection;
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
        connections[fd] = new_connection();
        struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.fd = fd};
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
    }
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *length, const unsigned char *in, unsigned int in_length,
                  void *unused) {
    (void)ssl, (void)unused;
    static const unsigned char h2[] = "\x02h2", h1[] = "\x08http/1.1";
    const unsigned char *ours = http2 ? h2 : h1;
    int chosen = SSL_select_next_proto((unsigned char **)out, length, ours, 1u + ours[0], in, in_length);
    return chosen == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

static void prepare_tls(const char *certificate, const char *key) {
    tls = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(tls, 0);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_alpn_select_cb(tls, choose, NULL);
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1 ||
        SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) != 1) {
        fprintf(stderr, "%s and %s are no certificate and key\n", certificate, key);
        exit(1);
    }
}

static void prepare(void) {
    char head[256];
    int head_bytes = snprintf(head, sizeof head,
                              "HTTP/1.1 200 OK\r\nDate: %s\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n"
                              "Connection: %s\r\n\r\n",
                              date, body_bytes, closes ? "close" : "keep-alive");
    response_bytes = (size_t)head_bytes + body_bytes;
    response = malloc(response_bytes);
    if (response == NULL) fail("malloc");
    memcpy(response, head, (size_t)head_bytes);
    body = response + head_bytes;
    memset(body, 'x', body_bytes);
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
            else if (!connections[fd]->waits_to_send || (send_all(epoll, fd, closes) && !connections[fd]->waits_to_send))
                receive(epoll, fd);
        }
    }
}

int main(int argc, char **argv) {
    const char *certificate = NULL;
    int option;
    while ((option = getopt(argc, argv, "s:c2t:")) != -1) {
        if (option == 's') body_bytes = strtoul(optarg, NULL, 10);
        else if (option == 'c') closes = 1;
        else if (option == '2') http2 = 1;
        else if (option == 't') certificate = optarg;
        else return 2;
    }
    if (certificate != NULL && optind >= argc) return 2;
    if (certificate != NULL) prepare_tls(certificate, argv[optind++]);
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    signal(SIGPIPE, SIG_IGN);
    prepare();
    serve(listen_on(optind < argc ? (uint16_t)atoi(argv[optind]) : 0));
}
