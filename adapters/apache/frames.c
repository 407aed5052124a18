/* Frames of version 1 of ../PROTOCOL.md (sections 2 to 7). Everything that comes in is checked here or in request.c. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "maitred.h"

enum { FLAG_OPTIONAL = 128 };

#define VERSION 1
#define WELCOME_BYTES 8
#define NAME_BYTES_MAX 64
#define PAYLOAD_BYTES_BEFORE_WELCOME (2u * 1024 * 1024)
#define BUFFER_BYTES (64 * 1024)
/* A buffer that one large request made larger than this is given back. */
#define BUFFER_BYTES_KEPT (1024 * 1024)

static apr_uint32_t get32(const unsigned char *from)
{
    return from[0] | (apr_uint32_t)from[1] << 8 | (apr_uint32_t)from[2] << 16 | (apr_uint32_t)from[3] << 24;
}

static unsigned get16(const unsigned char *from)
{
    return from[0] | (unsigned)from[1] << 8;
}

static void put(unsigned char *to, apr_uint64_t value, unsigned bytes)
{
    for (unsigned n = 0; n < bytes; n++) {
        to[n] = (unsigned char)(value >> 8 * n);
    }
}

void frames_init(frames_in_t *in)
{
    memset(in, 0, sizeof(*in));
    in->payload_max = PAYLOAD_BYTES_BEFORE_WELCOME;
}

void frames_destroy(frames_in_t *in)
{
    for (unsigned n = 0; n < in->waiting_count; n++) {
        close(in->waiting[n]);
    }
    in->waiting_count = 0;
    free(in->data);
    in->data = NULL;
}

unsigned char *frames_room(frames_in_t *in, apr_size_t bytes)
{
    if (in->at == in->used) {
        in->at = in->used = 0;
        if (in->room > BUFFER_BYTES_KEPT) {
            free(in->data);
            in->data = NULL;
            in->room = 0;
        }
    }
    if (in->room - in->used < bytes && in->at > 0) {
        memmove(in->data, in->data + in->at, in->used - in->at);
        in->used -= in->at;
        in->at = 0;
    }
    if (in->room - in->used < bytes) {
        apr_size_t room = in->used + bytes < BUFFER_BYTES ? BUFFER_BYTES : in->used + bytes;
        unsigned char *data = realloc(in->data, room);
        if (data == NULL) {
            return NULL;
        }
        in->data = data;
        in->room = room;
    }
    return in->data + in->used;
}

int frames_add_descriptors(frames_in_t *in, const int *descriptors, unsigned count)
{
    int fits = count <= WAITING_MAX - in->waiting_count;
    for (unsigned n = 0; n < count; n++) {
        if (fits) {
            in->waiting[in->waiting_count++] = descriptors[n];
        }
        else {
            close(descriptors[n]);
        }
    }
    if (!fits) {
        in->fault = "more descriptors than frames that could take them";
    }
    return fits;
}

/* Takes the oldest descriptor; the caller has checked that there is one. */
static int take_descriptor(frames_in_t *in)
{
    int descriptor = in->waiting[0];
    in->waiting_count--;
    memmove(in->waiting, in->waiting + 1, in->waiting_count * sizeof(int));
    return descriptor;
}

static frame_result_e fault(frames_in_t *in, const char *what)
{
    in->fault = what;
    return FRAME_FAULT;
}

static frame_result_e take_request(frames_in_t *in, frame_t *frame, unsigned descriptors)
{
    unsigned bodies = frame->flags & FLAG_BODY_FD ? 1 : 0;
    if (frame->flags & ~(unsigned)(FLAG_KEEP | FLAG_HTTP10 | FLAG_HEAD | FLAG_BODY_FD | FLAG_MAY_DETACH)) {
        return fault(in, "a REQUEST has unknown flags");
    }
    if ((frame->flags & FLAG_BODY_FD) && (frame->flags & FLAG_MAY_DETACH)) {
        return fault(in, "a REQUEST has both BODY_FD and MAY_DETACH");
    }
    if (descriptors < bodies || descriptors > bodies + 1) {
        return fault(in, "a REQUEST has a wrong number of descriptors");
    }
    frame->connection_fd = descriptors > bodies ? take_descriptor(in) : -1;
    frame->body_fd = bodies ? take_descriptor(in) : -1;
    frame->trailers = in->trailers;
    frame->trailer_bytes = in->trailer_bytes;
    in->trailer_bytes = 0;
    return FRAME_READY;
}

/* Kept for the REQUEST behind it; request.c reads what it says. */
static frame_result_e take_trailers(frames_in_t *in, const frame_t *frame, unsigned descriptors)
{
    if (frame->payload_bytes == 0 || frame->payload_bytes > TRAILER_BYTES_MAX || descriptors
        || frame->flags & ~(unsigned)FLAG_OPTIONAL) {
        return fault(in, "TRAILERS have too few or too many bytes, descriptors or flags");
    }
    memcpy(in->trailers, frame->payload, frame->payload_bytes);
    in->trailer_bytes = frame->payload_bytes;
    in->trailed_connection = frame->connection;
    in->trailed_request = frame->request;
    return FRAME_NONE;
}

/* Whether a frame is the REQUEST to which the trailers before it belong. */
static int takes_trailers(const frames_in_t *in, const frame_t *frame)
{
    return frame->kind == FRAME_REQUEST && frame->connection == in->trailed_connection
        && frame->request == in->trailed_request && !(frame->flags & FLAG_MAY_DETACH);
}

static frame_result_e take_welcome(frames_in_t *in, const frame_t *frame)
{
    if (in->welcomed || frame->payload_bytes != WELCOME_BYTES || frame->flags) {
        return fault(in, "a WELCOME that is a second one, or no WELCOME of version 1");
    }
    if (get16(frame->payload) != VERSION) {
        return fault(in, "WELCOME chooses a version that was not offered");
    }
    in->payload_max = get32(frame->payload + 4);
    if (in->payload_max > PAYLOAD_BYTES_MAX) {
        in->payload_max = PAYLOAD_BYTES_MAX;
    }
    in->welcomed = 1;
    return FRAME_NONE;
}

/* A complete frame: FRAME_NONE if there is nothing to do about it. */
static frame_result_e take(frames_in_t *in, frame_t *frame, unsigned descriptors)
{
    if (descriptors > in->waiting_count) {
        return fault(in, "a frame whose descriptor did not come");
    }
    if (!in->welcomed && frame->kind != FRAME_WELCOME) {
        return fault(in, "the first frame is no WELCOME");
    }
    if (in->trailer_bytes > 0 && !takes_trailers(in, frame)) {
        return fault(in, "TRAILERS do not stand before their REQUEST");
    }
    switch (frame->kind) {
    case FRAME_REQUEST:
        return take_request(in, frame, descriptors);
    case FRAME_TRAILERS:
        return take_trailers(in, frame, descriptors);
    case FRAME_WELCOME:
        return descriptors ? fault(in, "a WELCOME with a descriptor") : take_welcome(in, frame);
    case FRAME_FORGET:
    case FRAME_CANCEL:
    case FRAME_PING:
    case FRAME_SHUTDOWN:
        if (frame->payload_bytes || descriptors || frame->flags & ~(unsigned)FLAG_OPTIONAL) {
            return fault(in, "a frame without payload has payload, descriptors or flags");
        }
        return FRAME_READY;
    default:
        if (!(frame->flags & FLAG_OPTIONAL)) {
            return fault(in, "a frame of an unknown kind");
        }
        while (descriptors-- > 0) {
            close(take_descriptor(in));
        }
        return FRAME_NONE;
    }
}

frame_result_e frames_next(frames_in_t *in, frame_t *frame)
{
    while (in->fault == NULL && in->used - in->at >= FRAME_HEADER_BYTES) {
        const unsigned char *header = in->data + in->at;
        frame_result_e result;

        frame->payload_bytes = get32(header);
        if (frame->payload_bytes > in->payload_max) {
            return fault(in, "a frame with too long a payload");
        }
        if (in->used - in->at - FRAME_HEADER_BYTES < frame->payload_bytes) {
            return FRAME_NONE;
        }
        frame->kind = header[4];
        frame->flags = header[5];
        frame->connection = get32(header + 8);
        frame->request = get32(header + 12);
        frame->payload = header + FRAME_HEADER_BYTES;
        frame->connection_fd = frame->body_fd = -1;
        in->at += FRAME_HEADER_BYTES + frame->payload_bytes;
        result = take(in, frame, get16(header + 6));
        if (result != FRAME_NONE) {
            return result;
        }
    }
    return in->fault ? FRAME_FAULT : FRAME_NONE;
}

int frames_cancelled(const frames_in_t *in, apr_uint32_t connection, apr_uint32_t request)
{
    apr_size_t at = in->at;
    while (in->used - at >= FRAME_HEADER_BYTES) {
        const unsigned char *header = in->data + at;
        apr_size_t bytes = get32(header);
        if (header[4] == FRAME_CANCEL && get32(header + 8) == connection && get32(header + 12) == request) {
            return 1;
        }
        if (in->used - at - FRAME_HEADER_BYTES < bytes) {
            return 0;
        }
        at += FRAME_HEADER_BYTES + bytes;
    }
    return 0;
}

static apr_size_t header(unsigned char *to, unsigned kind, unsigned flags, unsigned descriptors, apr_uint32_t connection,
                         apr_uint32_t request, apr_uint32_t payload_bytes)
{
    put(to, payload_bytes, 4);
    to[4] = (unsigned char)kind;
    to[5] = (unsigned char)flags;
    put(to + 6, descriptors, 2);
    put(to + 8, connection, 4);
    put(to + 12, request, 4);
    return FRAME_HEADER_BYTES;
}

apr_size_t frame_hello(unsigned char *to, const char *name)
{
    apr_size_t name_bytes = strlen(name) < NAME_BYTES_MAX / 2 ? strlen(name) : NAME_BYTES_MAX / 2;
    apr_size_t at = header(to, FRAME_HELLO, 0, 0, 0, 0, (apr_uint32_t)(8 + name_bytes));
    put(to + at, VERSION, 2);
    put(to + at + 2, VERSION, 2);
    put(to + at + 4, 1, 4); /* capacity: a channel is one thread of Apache's */
    memcpy(to + at + 8, name, name_bytes);
    return at + 8 + name_bytes;
}

apr_size_t frame_done(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, unsigned flags, unsigned status,
                      apr_uint64_t service_us, apr_uint64_t body_bytes)
{
    apr_size_t at = header(to, FRAME_DONE, flags, 0, connection, request, 16);
    put(to + at, status, 4); /* and the reserved field behind it, which is 0 */
    put(to + at + 4, service_us > APR_UINT32_MAX ? APR_UINT32_MAX : service_us, 4);
    put(to + at + 8, body_bytes, 8);
    return at + 16;
}

apr_size_t frame_tail(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, apr_uint32_t bytes)
{
    return header(to, FRAME_TAIL, 0, 0, connection, request, bytes);
}

apr_size_t frame_tail_file(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, apr_uint64_t offset,
                           apr_uint64_t length)
{
    apr_size_t at = header(to, FRAME_TAIL, FLAG_FILE, 1, connection, request, 16);
    put(to + at, offset, 8);
    put(to + at + 8, length, 8);
    return at + 16;
}

apr_size_t frame_pong(unsigned char *to, apr_uint32_t request)
{
    return header(to, FRAME_PONG, 0, 0, 0, request, 0);
}
