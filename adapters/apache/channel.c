/* One channel to Maitred (../PROTOCOL.md, sections 1 to 3, 6 and 8): a connection that Apache has accepted, and that keeps one
 * of its workers for as long as it lasts. Requests are answered one after another. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "apr_portable.h"
#include "apr_strings.h"
#include "ap_mpm.h"
#include "mpm_common.h"

#include "maitred.h"

APLOG_USE_MODULE(maitred);

/* How long until an idle channel notices that Apache stops or restarts, at most. Only threads wait for it: a signal
 * interrupts a process of its own (prefork). */
#define TICK_MS 1000
#define RECEIVE_BYTES (64 * 1024)
#define OUT_BYTES (16 * 1024)
/* A DONE may wait for company if requests are this short (PROTOCOL.md, "Batches"). */
#define SHORT_REQUEST_US 1000
#define SHORT_REQUESTS_MIN 100
#define CANCEL_INTERVAL_US 100000
/* Descriptors of connections that one channel keeps. Maitred keeps to 900. */
#define KEPT_MAX 1024
#define KEPT_HEADS 256

typedef struct kept_t {
    struct kept_t *next;
    apr_uint32_t connection;
    int fd;
} kept_t;

struct channel_t {
    conn_rec *c;
    int fd;
    frames_in_t in;
    unsigned char out[OUT_BYTES];
    apr_size_t out_used;
    unsigned short_requests;  /* in a row */
    apr_time_t cancel_looked;
    kept_t *kept[KEPT_HEADS];
    unsigned kept_count;
    unsigned char *sink;      /* of SINK_BYTES */
    apr_socket_t *nowhere;    /* for modules that ask for the socket of a request's connection: none of ours is theirs */
    int served, served_max;   /* requests; 0: no maximum */
    int leaving;              /* receives no more, answers what has come */
    int at_end;               /* nothing more comes */
    int lost;                 /* cannot be written to any more */
};

/* ---- sending ---- */

static void send_all(channel_t *channel, struct iovec *parts, int count, int descriptor)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)count};

    if (descriptor >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = &control;
        message.msg_controllen = sizeof(control.bytes);
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.header), &descriptor, sizeof(int));
    }
    while (message.msg_iovlen > 0 && !channel->lost) {
        ssize_t sent = sendmsg(channel->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        struct pollfd waited = {.fd = channel->fd, .events = POLLOUT};
        if (sent < 0 && errno == EAGAIN) {
            channel->lost = poll(&waited, 1, (int)apr_time_as_msec(ap_server_conf->timeout)) == 0;
        }
        else if (sent < 0 && errno != EINTR) {
            channel->lost = 1;
        }
        for (size_t rest = sent > 0 ? (size_t)sent : 0; sent >= 0 && message.msg_iovlen > 0;) {
            struct iovec *part = message.msg_iov;
            size_t taken = rest < part->iov_len ? rest : part->iov_len;
            part->iov_base = (char *)part->iov_base + taken;
            part->iov_len -= taken;
            rest -= taken;
            if (part->iov_len > 0) {
                break;
            }
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (sent > 0) {
            message.msg_control = NULL; /* went with the first byte */
            message.msg_controllen = 0;
        }
    }
}

static void flush(channel_t *channel)
{
    if (channel->out_used > 0) {
        struct iovec part = {channel->out, channel->out_used};
        channel->out_used = 0;
        send_all(channel, &part, 1, -1);
    }
}

static void enqueue(channel_t *channel, const unsigned char *frame, apr_size_t bytes)
{
    if (channel->out_used + bytes > OUT_BYTES) {
        flush(channel);
    }
    memcpy(channel->out + channel->out_used, frame, bytes);
    channel->out_used += bytes;
}

void channel_send(channel_t *channel, const unsigned char *frame, apr_size_t frame_bytes, const void *data, apr_size_t bytes,
                  int descriptor)
{
    struct iovec parts[2] = {{(void *)frame, frame_bytes}, {(void *)data, bytes}};
    flush(channel);
    send_all(channel, parts, 2, descriptor);
}

/* ---- receiving ---- */

typedef enum { RECEIVED, WOULD_WAIT, ENDED } received_e;

static received_e receive(channel_t *channel)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PASSED_MAX * sizeof(int))];
    } control;
    unsigned char *room = frames_room(&channel->in, RECEIVE_BYTES);
    struct iovec part = {room, RECEIVE_BYTES};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &control,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t count;

    if (room == NULL) {
        channel->in.fault = "no memory for its requests";
        return ENDED;
    }
    do {
        count = recvmsg(channel->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return errno == EAGAIN ? WOULD_WAIT : ENDED;
    }
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c != NULL; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
            int passed[PASSED_MAX];
            unsigned passed_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
            memcpy(passed, CMSG_DATA(c), passed_count * sizeof(int));
            frames_add_descriptors(&channel->in, passed, passed_count);
        }
    }
    if (message.msg_flags & MSG_CTRUNC) {
        channel->in.fault = "descriptors were lost: the limit of open files is too low";
    }
    channel->in.used += (apr_size_t)count;
    return count == 0 ? ENDED : RECEIVED;
}

int channel_cancelled(channel_t *channel, apr_uint32_t connection, apr_uint32_t request)
{
    apr_time_t now = apr_time_now();
    if (now - channel->cancel_looked >= CANCEL_INTERVAL_US && !channel->at_end) {
        channel->cancel_looked = now;
        if (channel->in.used - channel->in.at < RECEIVE_BYTES) {
            channel->at_end = receive(channel) == ENDED;
        }
    }
    return frames_cancelled(&channel->in, connection, request);
}

/* ---- the descriptors that are kept ---- */

static kept_t **find_kept(channel_t *channel, apr_uint32_t connection)
{
    kept_t **place = &channel->kept[connection % KEPT_HEADS];
    while (*place != NULL && (*place)->connection != connection) {
        place = &(*place)->next;
    }
    return place;
}

static void forget(channel_t *channel, apr_uint32_t connection)
{
    kept_t **place = find_kept(channel, connection), *kept = *place;
    if (kept != NULL) {
        *place = kept->next;
        close(kept->fd);
        free(kept);
        channel->kept_count--;
    }
}

/* The response descriptor of a request, -1 if there is none. */
static int descriptor_of(channel_t *channel, const frame_t *frame)
{
    kept_t *kept;
    if (frame->connection_fd < 0) {
        kept = *find_kept(channel, frame->connection);
        return kept ? kept->fd : -1;
    }
    forget(channel, frame->connection);
    kept = channel->kept_count < KEPT_MAX ? malloc(sizeof(*kept)) : NULL;
    if (kept == NULL) {
        close(frame->connection_fd);
        return -1;
    }
    kept->connection = frame->connection;
    kept->fd = frame->connection_fd;
    kept->next = channel->kept[frame->connection % KEPT_HEADS];
    channel->kept[frame->connection % KEPT_HEADS] = kept;
    channel->kept_count++;
    return kept->fd;
}

static apr_status_t destroy(void *data)
{
    channel_t *channel = data;
    for (unsigned n = 0; n < KEPT_HEADS; n++) {
        while (channel->kept[n] != NULL) {
            forget(channel, channel->kept[n]->connection);
        }
    }
    frames_destroy(&channel->in);
    return APR_SUCCESS;
}

/* ---- requests ---- */

/* Apache's connection for one request: as if the client had connected by itself. NULL if a module refuses it. Made by hand,
 * because Apache's own way takes the addresses from a socket: the channel's has none, and the client's may be a relay. */
static conn_rec *connect_client(channel_t *channel, maitred_conn_t *mc, apr_pool_t *pool)
{
    const maitred_request_t *request = mc->request;
    conn_rec *outer = channel->c, *c = apr_pcalloc(pool, sizeof(*c));
    int status;

    c->pool = pool;
    c->conn_config = ap_create_conn_config(pool);
    c->notes = apr_table_make(pool, 4);
    c->base_server = ap_server_conf;
    c->bucket_alloc = outer->bucket_alloc;
    c->sbh = outer->sbh;
    c->id = outer->id;
    c->current_thread = outer->current_thread;
    c->master = outer; /* so that no module, mod_ssl for one, takes the channel's bytes for the client's */
    c->local_addr = request->local;
    c->local_ip = request->local_ip;
    c->client_addr = request->remote;
    c->client_ip = request->remote_ip;
    mc->c = c;
    ap_set_module_config(c->conn_config, &maitred_module, mc);
    ap_set_core_module_config(c->conn_config, channel->nowhere);
    ap_update_vhost_given_ip(c);
    status = ap_run_pre_connection(c, channel->nowhere);
    return status == OK || status == DONE ? c : NULL;
}

static void supply_input(maitred_conn_t *mc, apr_pool_t *pool)
{
    const maitred_request_t *request = mc->request;
    apr_bucket_alloc_t *alloc = mc->c->bucket_alloc;

    mc->input = apr_brigade_create(pool, alloc);
    APR_BRIGADE_INSERT_TAIL(mc->input, apr_bucket_immortal_create(request->head, request->head_bytes, alloc));
    if (request->body_fd >= 0) {
        apr_file_t *file = NULL;
        apr_os_file_t fd = request->body_fd;
        apr_os_file_put(&file, &fd, APR_FOPEN_READ | APR_FOPEN_BINARY, pool);
        apr_brigade_insert_file(mc->input, file, 0, request->body_bytes, pool);
    }
    else if (request->body_bytes > 0) {
        APR_BRIGADE_INSERT_TAIL(mc->input, apr_bucket_immortal_create(request->body, (apr_size_t)request->body_bytes, alloc));
    }
}

static void answer(channel_t *channel, maitred_request_t *request, maitred_conn_t *mc, apr_pool_t *pool)
{
    conn_rec *c;
    request_rec *r;

    mc->request = request;
    mc->sink.channel = channel;
    mc->sink.connection = request->connection;
    mc->sink.request = request->request;
    mc->sink.fd = request->fd;
    mc->sink.timeout = ap_server_conf->timeout;
    mc->sink.buffer = channel->sink;
    mc->sink.spool = -1;
    c = connect_client(channel, mc, pool);
    if (c == NULL) {
        return;
    }
    supply_input(mc, pool);
    filters_add(mc);
    ap_update_child_status_from_conn(c->sbh, SERVER_BUSY_READ, c);
    r = ap_read_request(c);
    if (r != NULL) {
        ap_update_child_status(c->sbh, SERVER_BUSY_WRITE, r);
        ap_process_request(r); /* logs and frees it */
    }
    mc->r = NULL;
    filters_end(mc);
    apr_brigade_destroy(mc->input);
}

static void report(channel_t *channel, const maitred_request_t *request, const maitred_conn_t *mc, apr_time_t began)
{
    unsigned char frame[FRAME_BYTES_MAX];
    apr_time_t took = apr_time_now() - began;
    unsigned flags = 0;

    if (mc->complete && !mc->broken && !mc->sink.gone) {
        flags = mc->framing == FRAMING_CLOSE ? FLAG_CLOSE : FLAG_CLEAN;
    }
    enqueue(channel, frame,
            frame_done(frame, request->connection, request->request, flags, (unsigned)mc->status,
                       took < 0 ? 0 : (apr_uint64_t)took, (apr_uint64_t)mc->body_bytes));
    channel->short_requests = took < SHORT_REQUEST_US ? channel->short_requests + 1 : 0;
}

static void serve_request(channel_t *channel, const frame_t *frame, apr_pool_t *pool)
{
    maitred_request_t *request = apr_pcalloc(pool, sizeof(*request));
    maitred_conn_t *mc = apr_pcalloc(pool, sizeof(*mc));
    apr_time_t began = apr_time_now();

    request->fd = descriptor_of(channel, frame);
    channel->in.fault = request_parse(request, frame, pool);
    if (channel->in.fault == NULL && request->fd < 0) {
        channel->in.fault = "a REQUEST of a connection whose descriptor is not here, or one connection too many";
    }
    if (channel->in.fault == NULL) {
        if (channel->short_requests < SHORT_REQUESTS_MIN) {
            flush(channel);
        }
        channel->cancel_looked = began;
        if (!frames_cancelled(&channel->in, request->connection, request->request)) {
            answer(channel, request, mc, pool);
        }
        report(channel, request, mc, began);
        channel->served++;
    }
    if (frame->body_fd >= 0) {
        close(frame->body_fd);
    }
}

/* ---- the loop ---- */

/* Whether Apache wants this worker to end: it stops or restarts, or the worker has served as much as it should. */
static int must_leave(const channel_t *channel)
{
    int state = AP_MPMQ_RUNNING, generation = 0;
    if (channel->served_max > 0 && channel->served >= channel->served_max) {
        return 1;
    }
    ap_mpm_query(AP_MPMQ_MPM_STATE, &state);
    ap_mpm_query(AP_MPMQ_GENERATION, &generation);
    return state == AP_MPMQ_STOPPING || generation != ap_scoreboard_image->global->running_generation;
}

/* Frames may be waiting in the kernel: they are still answered, and what Maitred sends from now on fails there. */
static void leave(channel_t *channel)
{
    if (!channel->leaving) {
        channel->leaving = 1;
        shutdown(channel->fd, SHUT_RD);
    }
}

static void take(channel_t *channel, const frame_t *frame, apr_pool_t *pool)
{
    unsigned char reply[FRAME_BYTES_MAX];
    switch (frame->kind) {
    case FRAME_REQUEST:
        serve_request(channel, frame, pool);
        apr_pool_clear(pool);
        break;
    case FRAME_FORGET:
        forget(channel, frame->connection);
        break;
    case FRAME_PING:
        enqueue(channel, reply, frame_pong(reply, frame->request));
        break;
    case FRAME_SHUTDOWN:
        leave(channel);
        break;
    default: /* a CANCEL that comes too late */
        break;
    }
}

/* Nothing is at hand: sends what there is to report, and waits. */
static void wait_for_frames(channel_t *channel)
{
    struct pollfd waited = {.fd = channel->fd, .events = POLLIN};
    received_e received = receive(channel);

    if (received == WOULD_WAIT) {
        ap_update_child_status(channel->c->sbh, SERVER_BUSY_KEEPALIVE, NULL);
        flush(channel);
        if (poll(&waited, 1, TICK_MS) > 0) {
            received = receive(channel);
        }
    }
    channel->at_end |= received == ENDED;
}

/* Apache wakes its own workers by a connection to one of its listeners, which may be ours. */
static int is_wake_up(const frames_in_t *in)
{
    return !in->welcomed && in->used >= 8 && memcmp(in->data, "OPTIONS ", 8) == 0;
}

static void loop(channel_t *channel, apr_pool_t *pool)
{
    apr_time_t began = apr_time_now();
    while (!channel->lost) {
        frame_t frame;
        frame_result_e result = is_wake_up(&channel->in) ? FRAME_FAULT : frames_next(&channel->in, &frame);
        if (result == FRAME_FAULT) {
            return;
        }
        if (must_leave(channel)) {
            leave(channel);
        }
        if (result == FRAME_READY) {
            take(channel, &frame, pool);
        }
        else if (channel->at_end) {
            return;
        }
        else {
            wait_for_frames(channel);
        }
        if (!channel->in.welcomed && apr_time_now() - began > ap_server_conf->timeout) {
            return; /* the peer is not Maitred */
        }
    }
}

static channel_t *open_channel(conn_rec *c)
{
    unsigned char hello[FRAME_BYTES_MAX];
    channel_t *channel = apr_pcalloc(c->pool, sizeof(*channel));
    apr_os_sock_t fd = -1, none = -1;

    if (apr_os_sock_get(&fd, ap_get_conn_socket(c)) != APR_SUCCESS
        || apr_os_sock_put(&channel->nowhere, &none, c->pool) != APR_SUCCESS) {
        return NULL;
    }
    channel->c = c;
    channel->fd = fd;
    channel->sink = apr_palloc(c->pool, SINK_BYTES);
    ap_mpm_query(AP_MPMQ_MAX_REQUESTS_DAEMON, &channel->served_max);
    frames_init(&channel->in);
    apr_pool_cleanup_register(c->pool, channel, destroy, apr_pool_cleanup_null);
    enqueue(channel, hello, frame_hello(hello, apr_pstrcat(c->pool, "apache ", ap_show_mpm(), NULL)));
    return channel;
}

int channel_serve(conn_rec *c)
{
    channel_t *channel = open_channel(c);
    apr_pool_t *pool;
    int threaded = 0;

    c->aborted = 1; /* Apache is not to linger on this socket when the loop has ended */
    if (channel == NULL) {
        return OK;
    }
    apr_pool_create(&pool, c->pool);
    apr_pool_tag(pool, "maitred_request");
    loop(channel, pool);
    if (channel->in.fault != NULL) {
        ap_log_error(APLOG_MARK, APLOG_ERR, 0, ap_server_conf, "maitred: channel closed: %s", channel->in.fault);
    }
    else {
        flush(channel);
    }
    apr_pool_destroy(pool);
    ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded);
    if (!threaded && channel->served_max > 0 && channel->served >= channel->served_max) {
        raise(AP_SIG_GRACEFUL); /* Apache has counted one connection: the process has to be asked to end */
    }
    return OK;
}
