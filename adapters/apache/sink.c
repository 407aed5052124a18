/* The bytes of one response: to the socket as long as it takes them, then kept, and at last to Maitred as TAIL
 * (../PROTOCOL.md, section 5), so that a slow client does not hold a worker of Apache's. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include "maitred.h"

APLOG_USE_MODULE(maitred);

#define COPY_BYTES (32 * 1024)
/* How long until a wait for a client notices that the request was cancelled, at most. */
#define WAIT_MS 1000
/* What is kept goes before each file that is passed, as a file itself if it is much; one is left for the end. */
#define FILES_PASSED_MAX (TAIL_FILES_MAX - 2)
#define TAILS_PASSED_MAX (TAILS_MAX - 8)

static void lost(sink_t *sink, const char *why, int error)
{
    if (why != NULL) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, error, ap_server_conf, "maitred: response aborted: %s", why);
    }
    sink->gone = 1;
    sink->used = 0;
    sink->spool_from = sink->spool_to;
}

/* After a call that sent `sent` bytes or failed: whether to go on. */
static int goes_on(sink_t *sink, ssize_t sent)
{
    if (sent > 0 || (sent < 0 && errno == EINTR)) {
        return 1;
    }
    if (sent < 0 && errno != EAGAIN) {
        lost(sink, NULL, 0); /* the client has closed its connection, or Maitred has shut it down */
    }
    return 0;
}

static int send_spool(sink_t *sink)
{
    while (sink->spool_from < sink->spool_to) {
        off_t from = sink->spool_from;
        ssize_t sent = sendfile(sink->fd, sink->spool, &from, (size_t)(sink->spool_to - from));
        if (sent == 0) {
            lost(sink, "its spool has shrunk", 0);
        }
        if (!goes_on(sink, sent)) {
            return 0;
        }
        sink->spool_from += sent > 0 ? sent : 0;
    }
    if (sink->spool_to > 0 && ftruncate(sink->spool, 0) == 0) {
        sink->spool_from = sink->spool_to = 0;
    }
    return 1;
}

/* Sends what is kept, then `data`, as far as the socket takes it; how many bytes of `data` it took. */
static apr_size_t pump(sink_t *sink, const void *data, apr_size_t bytes)
{
    apr_size_t taken = 0;
    if (sink->tailing || sink->gone || !send_spool(sink)) {
        return 0;
    }
    while (sink->used + bytes - taken > 0) {
        struct iovec parts[2] = {{sink->buffer, sink->used}, {(char *)data + taken, bytes - taken}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t sent = sendmsg(sink->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        apr_size_t count = sent > 0 ? (apr_size_t)sent : 0;
        if (!goes_on(sink, sent)) {
            break;
        }
        if (count < sink->used) {
            sink->used -= count;
            memmove(sink->buffer, sink->buffer + count, sink->used);
        }
        else {
            taken += count - sink->used;
            sink->used = 0;
        }
    }
    return taken;
}

/* Waits for the client until the spool is empty, and looks for a CANCEL meanwhile. */
static void wait_for_room(sink_t *sink)
{
    apr_time_t end = apr_time_now() + sink->timeout;
    while (!sink->gone && sink->spool_from < sink->spool_to) {
        struct pollfd waited = {.fd = sink->fd, .events = POLLOUT};
        int ready = poll(&waited, 1, WAIT_MS);
        if (ready > 0) {
            end = apr_time_now() + sink->timeout;
        }
        else if ((ready == 0 && apr_time_now() >= end) || (ready < 0 && errno != EINTR)) {
            lost(sink, "its client takes nothing", ready < 0 ? errno : 0);
            return;
        }
        if (channel_cancelled(sink->channel, sink->connection, sink->request)) {
            lost(sink, NULL, 0);
            return;
        }
        send_spool(sink);
    }
}

static void spool(sink_t *sink, const char *data, apr_size_t bytes)
{
    if (sink->spool < 0) {
        sink->spool = memfd_create("maitred-tail", MFD_CLOEXEC);
        if (sink->spool < 0) {
            lost(sink, "no file in memory", errno);
            return;
        }
    }
    /* What was sent stays in the file until all of it was, so it counts, too: a client that is as fast as the application would
     * otherwise make it grow without an end. What was passed is Maitred's. */
    apr_off_t kept = sink->spool_to - (sink->tailing ? sink->spool_from : 0);
    if (kept + (apr_off_t)bytes > SPOOL_BYTES_MAX) {
        if (sink->tailing) {
            lost(sink, "too much behind a file that Maitred delivers", 0);
            return;
        }
        wait_for_room(sink);
    }
    while (bytes > 0 && !sink->gone) {
        ssize_t written = pwrite(sink->spool, data, bytes, sink->spool_to);
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            lost(sink, "its spool is full", errno);
            return;
        }
        sink->spool_to += written;
        data += written;
        bytes -= (apr_size_t)written;
    }
}

void sink_write(sink_t *sink, const void *data, apr_size_t bytes)
{
    if (sink->gone) {
        return;
    }
    sink->bytes += (apr_off_t)bytes;
    if (sink->used + bytes > SINK_BYTES) {
        apr_size_t taken = pump(sink, data, bytes);
        data = (const char *)data + taken;
        bytes -= taken;
    }
    if (sink->used + bytes > SINK_BYTES) {
        spool(sink, (const char *)sink->buffer, sink->used);
        sink->used = 0;
    }
    if (bytes > SINK_BYTES) {
        spool(sink, data, bytes);
    }
    else if (!sink->gone) {
        memcpy(sink->buffer + sink->used, data, bytes);
        sink->used += bytes;
    }
}

static void pass_file(sink_t *sink, int fd, apr_off_t offset, apr_off_t length)
{
    unsigned char frame[FRAME_BYTES_MAX];
    apr_size_t bytes = frame_tail_file(frame, sink->connection, sink->request, (apr_uint64_t)offset, (apr_uint64_t)length);
    channel_send(sink->channel, frame, bytes, NULL, 0, fd);
    sink->tailing = 1;
    sink->tails++;
    sink->files++;
}

/* Leaves what is kept to Maitred. */
static void pass_kept(sink_t *sink)
{
    if (sink->used > 0 && sink->tail_bytes + sink->used > TAIL_TOTAL_BYTES_MAX) {
        spool(sink, (const char *)sink->buffer, sink->used);
        sink->used = 0;
    }
    if (sink->spool_from < sink->spool_to) {
        pass_file(sink, sink->spool, sink->spool_from, sink->spool_to - sink->spool_from);
        sink->spool_from = sink->spool_to;
    }
    if (sink->used > 0) {
        unsigned char frame[FRAME_BYTES_MAX];
        apr_size_t bytes = frame_tail(frame, sink->connection, sink->request, (apr_uint32_t)sink->used);
        channel_send(sink->channel, frame, bytes, sink->buffer, sink->used, -1);
        sink->tailing = 1;
        sink->tails++;
        sink->tail_bytes += sink->used;
        sink->used = 0;
    }
}

void sink_file(sink_t *sink, int fd, apr_off_t offset, apr_off_t length)
{
    if (sink->files < FILES_PASSED_MAX && sink->tails < TAILS_PASSED_MAX) {
        sink->bytes += length;
        pump(sink, NULL, 0);
        pass_kept(sink);
        if (!sink->gone) {
            pass_file(sink, fd, offset, length);
        }
        return;
    }
    while (length > 0 && !sink->gone) {
        char copy[COPY_BYTES];
        ssize_t count = pread(fd, copy, length < COPY_BYTES ? (size_t)length : COPY_BYTES, offset);
        if (count <= 0) {
            lost(sink, "its file has shrunk", count < 0 ? errno : 0);
            return;
        }
        sink_write(sink, copy, (apr_size_t)count);
        offset += count;
        length -= count;
    }
}

void sink_flush(sink_t *sink)
{
    pump(sink, NULL, 0);
}

int sink_holds(const sink_t *sink)
{
    return sink->used > 0 || sink->spool_from < sink->spool_to;
}

void sink_end(sink_t *sink)
{
    pump(sink, NULL, 0);
    if (!sink->gone) {
        pass_kept(sink);
    }
    if (sink->spool >= 0) {
        close(sink->spool);
        sink->spool = -1;
        sink->spool_from = sink->spool_to = 0;
    }
}
