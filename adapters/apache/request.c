/* The payload of a REQUEST, and of the TRAILERS before it (../PROTOCOL.md, section 4). Maitred writes both, so anything
 * unexpected is a violation. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apr_atomic.h"
#include "apr_strings.h"

#include "maitred.h"

#define META_BYTES_MAX 4096
#define PARTS_BYTES 12
#define REQUEST_LINE_END " HTTP/1.1"
/* More than joining cookies can add to a head. */
#define SLACK_BYTES 64

typedef struct {
    const char *data;
    apr_size_t bytes;
} text_t;

static int is(text_t text, const char *wanted)
{
    return text.bytes == strlen(wanted) && memcmp(text.data, wanted, text.bytes) == 0;
}

/* `IP:port`. Only numbers: nothing here may ask a name server. Port 0 means that it is not known, as of a client that a proxy
 * has named; which is why APR's own function, which refuses it, is not used. */
static const char *parse_address(text_t text, apr_sockaddr_t **address, char **ip, apr_pool_t *pool)
{
    unsigned char binary[16];
    char *host = apr_pstrmemdup(pool, text.data, text.bytes);
    char *colon = strrchr(host, ':');
    apr_size_t digits = colon ? strspn(colon + 1, "0123456789") : 0;
    apr_port_t port;

    if (digits < 1 || digits > 5 || colon[1 + digits] != '\0' || atoi(colon + 1) > 65535) {
        return "an address in a REQUEST is no address";
    }
    port = (apr_port_t)atoi(colon + 1);
    *colon = '\0';
    if (*host == '[' && colon[-1] == ']') {
        colon[-1] = '\0';
        host++;
    }
    if (inet_pton(AF_INET, host, binary) != 1 && inet_pton(AF_INET6, host, binary) != 1) {
        return "an address in a REQUEST is no number";
    }
    if (apr_sockaddr_info_get(address, host, APR_UNSPEC, port, 0, pool) != APR_SUCCESS
        || apr_sockaddr_ip_get(ip, *address) != APR_SUCCESS) {
        return "an address in a REQUEST cannot be used";
    }
    return NULL;
}

static const char *parse_meta(maitred_request_t *request, text_t meta, apr_pool_t *pool)
{
    const char *fault = NULL;
    const char *at = meta.data, *end = meta.data + meta.bytes;

    while (at < end && fault == NULL) {
        const char *line_end = memchr(at, '\n', (apr_size_t)(end - at));
        const char *equals = line_end ? memchr(at, '=', (apr_size_t)(line_end - at)) : NULL;
        if (equals == NULL) {
            return "a line of meta is not key=value";
        }
        text_t key = {at, (apr_size_t)(equals - at)};
        text_t value = {equals + 1, (apr_size_t)(line_end - equals - 1)};
        for (const char *c = at; c < line_end; c++) {
            if ((unsigned char)*c < 32 || *c == 127) {
                return "a control character in meta";
            }
        }
        if (is(key, "remote")) {
            fault = parse_address(value, &request->remote, &request->remote_ip, pool);
        }
        else if (is(key, "local")) {
            fault = parse_address(value, &request->local, &request->local_ip, pool);
        }
        else if (is(key, "scheme")) {
            request->https = is(value, "https");
        }
        else if (is(key, "early_hints")) {
            /* Not to HTTP/1.0 (RFC 9110, section 15.2). */
            request->early_hints = is(value, "1") && !(request->flags & FLAG_HTTP10);
        }
        else if (is(key, "trailers")) {
            request->trailers = is(value, "1") && !(request->flags & (FLAG_HTTP10 | FLAG_HEAD));
        }
        else if (is(key, "sendfile_root") && value.bytes > 0) {
            request->sendfile_root = apr_pstrmemdup(pool, value.data, value.bytes);
        }
        else if (is(key, "user") && value.bytes > 0) {
            request->user = apr_pstrmemdup(pool, value.data, value.bytes);
        }
        else if (is(key, "auth_type") && value.bytes > 0) {
            request->auth_type = apr_pstrmemdup(pool, value.data, value.bytes);
        }
        at = line_end + 1;
    }
    if (fault == NULL && (request->remote == NULL || request->local == NULL)) {
        fault = "meta without remote or local";
    }
    return fault;
}

/* A field's line, without CRLF; its name ends at `*name_bytes`. 0 if it is not in canonical form. */
static int split_field(text_t line, apr_size_t *name_bytes)
{
    const char *colon = memchr(line.data, ':', line.bytes);
    if (colon == NULL || colon == line.data || colon + 1 == line.data + line.bytes || colon[1] != ' ') {
        return 0;
    }
    for (const char *c = line.data; c < colon; c++) {
        if ((unsigned char)*c <= ' ' || *c == 127 || (*c >= 'A' && *c <= 'Z')) {
            return 0;
        }
    }
    *name_bytes = (apr_size_t)(colon - line.data);
    return 1;
}

static int parse_length(text_t value, apr_off_t *length)
{
    char *text_end;
    char digits[24];
    if (value.bytes == 0 || value.bytes > 18) {
        return 0;
    }
    memcpy(digits, value.data, value.bytes);
    digits[value.bytes] = 0;
    if (strspn(digits, "0123456789") != value.bytes) {
        return 0;
    }
    *length = (apr_off_t)apr_strtoi64(digits, &text_end, 10);
    return 1;
}

static char *append(char *to, const char *data, apr_size_t bytes)
{
    memcpy(to, data, bytes);
    return to + bytes;
}

/* The reason why a WebSocket fails is in the log, once per process. */
static void note_declined(text_t protocol)
{
    static volatile apr_uint32_t noted;
    if (is(protocol, "websocket") && apr_atomic_cas32(&noted, 1, 0) == 0) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, 0, ap_server_conf,
                     "maitred: a WebSocket was asked for, and upgrades do not pass through Apache: the request goes on as a plain "
                     "one; let a route of Maitred's lead to that application directly");
    }
}

/* The fields of the head, which `to` and `cookies` both have room for; `*stated` is their content-length, or -1. */
static const char *copy_fields(maitred_request_t *request, const char *at, const char *end, char *to, char *cookies,
                               apr_off_t *stated)
{
    char *cookies_end = cookies;

    *stated = -1;
    for (;;) {
        const char *line_end = memchr(at, '\r', (apr_size_t)(end - at));
        apr_size_t name_bytes;
        if (line_end == NULL || line_end + 1 >= end || line_end[1] != '\n') {
            return "a line of a head does not end as it should";
        }
        text_t line = {at, (apr_size_t)(line_end - at)};
        at = line_end + 2;
        if (line.bytes == 0) {
            break;
        }
        if (memchr(line.data, '\n', line.bytes) || memchr(line.data, 0, line.bytes) || !split_field(line, &name_bytes)) {
            return "a field of a head is not in canonical form";
        }
        text_t name = {line.data, name_bytes}, value = {line.data + name_bytes + 2, line.bytes - name_bytes - 2};
        if (is(name, "content-length") && (*stated >= 0 || !parse_length(value, stated))) {
            return "a content-length that is none";
        }
        if (is(name, "cookie")) {
            /* Apache would join them with commas, which is wrong for cookies (RFC 6265, section 5.4). */
            cookies_end = append(cookies_end, "; ", 2);
            cookies_end = append(cookies_end, value.data, value.bytes);
            continue;
        }
        if ((request->flags & FLAG_MAY_DETACH) && (is(name, "upgrade") || is(name, "connection"))) {
            note_declined(value); /* see README.md */
            continue;
        }
        to = append(append(to, line.data, line.bytes), "\r\n", 2);
    }
    if (at != end) {
        return "a head goes on behind its empty line";
    }
    if (cookies_end > cookies) {
        to = append(append(to, "cookie: ", 8), cookies + 2, (apr_size_t)(cookies_end - cookies - 2));
        to = append(to, "\r\n", 2);
    }
    to = append(to, "\r\n", 2);
    request->head_bytes = (apr_size_t)(to - request->head);
    return NULL;
}

static const char *parse_head(maitred_request_t *request, text_t head, apr_off_t *stated, apr_pool_t *pool)
{
    const apr_size_t version_bytes = sizeof(REQUEST_LINE_END) - 1;
    const char *line_end = memchr(head.data, '\r', head.bytes);
    apr_size_t line_bytes = line_end ? (apr_size_t)(line_end - head.data) : 0;
    char *to;

    if (line_bytes < version_bytes || memcmp(line_end - version_bytes, REQUEST_LINE_END, version_bytes) != 0
        || line_end + 1 >= head.data + head.bytes || line_end[1] != '\n' || memchr(head.data, 0, line_bytes)
        || memchr(head.data, '\n', line_bytes)) {
        return "a request line is not in canonical form";
    }
    /* Twice: for the head, and behind it for cookies while they are gathered. */
    request->head = apr_palloc(pool, 2 * head.bytes + 2 * SLACK_BYTES);
    to = append(request->head, head.data, line_bytes);
    if (request->flags & FLAG_HTTP10) {
        to[-1] = '0';
    }
    to = append(to, "\r\n", 2);
    return copy_fields(request, line_end + 2, head.data + head.bytes, to, request->head + head.bytes + SLACK_BYTES, stated);
}

static const char *check_body(maitred_request_t *request, apr_off_t stated, apr_pool_t *pool, text_t body)
{
    struct stat file;
    if (request->flags & FLAG_BODY_FD) {
        if (body.bytes != 0 || stated < 0 || fstat(request->body_fd, &file) != 0 || !S_ISREG(file.st_mode)
            || file.st_size < stated) {
            return "a body in a file is not what its content-length says";
        }
        request->body_bytes = stated;
        return NULL;
    }
    if (request->flags & FLAG_MAY_DETACH) {
        return NULL; /* these bytes are no body, and stay Maitred's */
    }
    if ((stated < 0 ? 0 : stated) != (apr_off_t)body.bytes) {
        return "a body is not as long as its content-length says";
    }
    request->body = apr_pmemdup(pool, body.data, body.bytes);
    request->body_bytes = (apr_off_t)body.bytes;
    return NULL;
}

/* Repeated ones are joined, as Apache does it. */
static const char *parse_trailers(maitred_request_t *request, const frame_t *frame, apr_pool_t *pool)
{
    const char *at = frame->trailers, *end = at + frame->trailer_bytes;
    unsigned count = 0;

    while (at < end) {
        const char *line_end = memchr(at, '\r', (apr_size_t)(end - at));
        text_t line = {at, line_end ? (apr_size_t)(line_end - at) : 0};
        apr_size_t name_bytes;
        if (line_end == NULL || line_end + 1 >= end || line_end[1] != '\n' || memchr(at, '\n', line.bytes)
            || memchr(at, 0, line.bytes) || !split_field(line, &name_bytes) || ++count > TRAILERS_MAX) {
            return "TRAILERS are not 1 to 32 fields in canonical form";
        }
        char *name = apr_pstrmemdup(pool, at, name_bytes);
        if (*ap_scan_http_token(name) != '\0') {
            return "the name of a trailer is no token";
        }
        if (request->trailers_in == NULL) {
            request->trailers_in = apr_table_make(pool, 4);
        }
        apr_table_mergen(request->trailers_in, name, apr_pstrmemdup(pool, at + name_bytes + 2, line.bytes - name_bytes - 2));
        at = line_end + 2;
    }
    return NULL;
}

static apr_size_t part_bytes(const unsigned char *from)
{
    return from[0] | (apr_size_t)from[1] << 8 | (apr_size_t)from[2] << 16 | (apr_size_t)from[3] << 24;
}

const char *request_parse(maitred_request_t *request, const frame_t *frame, apr_pool_t *pool)
{
    const unsigned char *payload = frame->payload;
    const char *fault;
    apr_off_t stated = -1;

    request->flags = frame->flags;
    request->connection = frame->connection;
    request->request = frame->request;
    request->body_fd = frame->body_fd;
    if (frame->payload_bytes < PARTS_BYTES) {
        return "a REQUEST is too short";
    }
    apr_size_t meta_bytes = part_bytes(payload), head_bytes = part_bytes(payload + 4), body_bytes = part_bytes(payload + 8);
    /* Sums of numbers of 32 bits cannot overflow one of 64. */
    if (meta_bytes > META_BYTES_MAX || PARTS_BYTES + meta_bytes + head_bytes + body_bytes != frame->payload_bytes) {
        return "the parts of a REQUEST do not add up";
    }
    text_t meta = {(const char *)payload + PARTS_BYTES, meta_bytes};
    text_t head = {meta.data + meta_bytes, head_bytes};
    text_t body = {head.data + head_bytes, body_bytes};
    fault = parse_meta(request, meta, pool);
    if (fault == NULL) {
        fault = parse_head(request, head, &stated, pool);
    }
    if (fault == NULL) {
        fault = check_body(request, stated, pool, body);
    }
    if (fault == NULL) {
        fault = parse_trailers(request, frame, pool);
    }
    return fault;
}
