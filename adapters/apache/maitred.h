/* mod_maitred: Apache httpd behind Maitred. What the files of this module share. The protocol is in ../PROTOCOL.md. */
#ifndef MAITRED_H
#define MAITRED_H

#include <sys/types.h>

#include "httpd.h"
#include "http_config.h"
#include "http_connection.h"
#include "http_core.h"
#include "http_log.h"
#include "http_main.h"
#include "http_protocol.h"
#include "http_request.h"
#include "http_vhost.h"
#include "scoreboard.h"
#include "util_filter.h"

/* The one symbol that Apache looks for; the others stay inside (Makefile). */
extern module AP_MODULE_DECLARE_DATA maitred_module __attribute__((visibility("default")));

/* ---- frames.c: bytes and descriptors in, frames out. No I/O. ---- */

enum { FRAME_REQUEST = 1, FRAME_FORGET, FRAME_CANCEL, FRAME_PING, FRAME_SHUTDOWN, FRAME_WELCOME, FRAME_TRAILERS };
enum { FRAME_HELLO = 65, FRAME_DONE, FRAME_TAIL, FRAME_PONG };
enum { FLAG_KEEP = 1, FLAG_HTTP10 = 2, FLAG_HEAD = 4, FLAG_BODY_FD = 8, FLAG_MAY_DETACH = 16 }; /* flags of REQUEST */
enum { FLAG_CLEAN = 1, FLAG_CLOSE = 2 };                                        /* flags of DONE */
enum { FLAG_FILE = 1 };                                               /* flag of TAIL */

#define FRAME_HEADER_BYTES 16
#define FRAME_BYTES_MAX 64      /* of a frame of ours, without the bytes of a TAIL and the name in HELLO */
#define TAIL_BYTES_MAX 65536    /* PROTOCOL.md, section 9, as the next two */
#define TAIL_TOTAL_BYTES_MAX (1024 * 1024)
#define TAILS_MAX 1024
/* Fields behind one body, of a request or of a response, and their bytes. Maitred reads 8192 of a response, with the empty line. */
#define TRAILERS_MAX 32
#define TRAILER_BYTES_MAX 8190
#define TAIL_FILES_MAX 8
#define PASSED_MAX 253          /* descriptors in one message: the kernel's SCM_MAX_FD */
/* Descriptors that have come and that no frame has taken. What arrives while a request runs is looked at only for CANCEL. */
#define WAITING_MAX 1024
/* A payload larger than this is refused even if WELCOME announces it: a bound for what one channel can allocate. */
#define PAYLOAD_BYTES_MAX (64u * 1024 * 1024)

typedef struct {
    apr_uint32_t payload_bytes;
    unsigned kind, flags;
    apr_uint32_t connection, request;
    const unsigned char *payload; /* valid until the next frame is taken or bytes are added */
    int connection_fd, body_fd;   /* of a REQUEST; -1 if it came without. The caller owns them */
    const char *trailers;         /* of a REQUEST, what its TRAILERS say; valid as the payload */
    apr_size_t trailer_bytes;     /* 0 if there were none */
} frame_t;

typedef struct {
    unsigned char *data;
    apr_size_t at, used, room;
    int waiting[WAITING_MAX]; /* descriptors, oldest first */
    unsigned waiting_count;
    apr_size_t payload_max;
    int welcomed;
    char trailers[TRAILER_BYTES_MAX]; /* which came before the REQUEST that is next, and whose they are */
    apr_size_t trailer_bytes;
    apr_uint32_t trailed_connection, trailed_request;
    const char *fault; /* what the peer did wrong; NULL if nothing */
} frames_in_t;

typedef enum { FRAME_NONE, FRAME_READY, FRAME_FAULT } frame_result_e;

void frames_init(frames_in_t *in);
void frames_destroy(frames_in_t *in);
/* Room for at least `bytes` behind what has come; NULL if there is no memory. */
unsigned char *frames_room(frames_in_t *in, apr_size_t bytes);
/* Descriptors of one message; 0 if there are too many (all are closed then, and `fault` is set). */
int frames_add_descriptors(frames_in_t *in, const int *descriptors, unsigned count);
frame_result_e frames_next(frames_in_t *in, frame_t *frame);
/* Whether a CANCEL of this request has come behind it. */
int frames_cancelled(const frames_in_t *in, apr_uint32_t connection, apr_uint32_t request);
/* Each writes one frame and returns its bytes, at most FRAME_BYTES_MAX. */
apr_size_t frame_hello(unsigned char *to, const char *name);
apr_size_t frame_done(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, unsigned flags, unsigned status,
                      apr_uint64_t service_us, apr_uint64_t body_bytes);
apr_size_t frame_tail(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, apr_uint32_t bytes);
apr_size_t frame_tail_file(unsigned char *to, apr_uint32_t connection, apr_uint32_t request, apr_uint64_t offset,
                           apr_uint64_t length);
apr_size_t frame_pong(unsigned char *to, apr_uint32_t request);

/* ---- request.c: the payload of a REQUEST. ---- */

typedef struct {
    apr_uint32_t connection, request;
    unsigned flags;
    int fd;      /* the response descriptor; belongs to the channel */
    int body_fd; /* -1 without BODY_FD; belongs to the request */
    apr_sockaddr_t *remote, *local;
    char *remote_ip, *local_ip;
    int https;
    int early_hints;           /* the client may have informational responses */
    int trailers;              /* it takes trailers, behind chunks */
    const char *sendfile_root; /* NULL if the application may name no file */
    const char *user, *auth_type; /* NULL if Maitred has not found out who the user is, and how */
    char *head;
    apr_size_t head_bytes;
    const char *body;
    apr_off_t body_bytes;
    apr_table_t *trailers_in;  /* what came behind the body; NULL if nothing did */
} maitred_request_t;

/* Checks and copies what `frame` says into `pool`; what is wrong with it, or NULL. */
const char *request_parse(maitred_request_t *request, const frame_t *frame, apr_pool_t *pool);

/* ---- channel.c: the socket to Maitred, and the loop that answers what comes from it. ---- */

typedef struct channel_t channel_t;

/* Serves the channel that `c` is until it ends. The process_connection hook. */
int channel_serve(conn_rec *c);
/* Sends a frame, with `bytes` of `data` behind it and a descriptor (-1: none), after all that is waiting to be sent. */
void channel_send(channel_t *channel, const unsigned char *frame, apr_size_t frame_bytes, const void *data, apr_size_t bytes,
                  int descriptor);
/* Whether Maitred has cancelled this request. Reads the socket, at most ten times a second. */
int channel_cancelled(channel_t *channel, apr_uint32_t connection, apr_uint32_t request);

/* ---- sink.c: where the bytes of one response go. ---- */

/* Also the most that one TAIL of bytes holds, so that what waits here fits into one. */
#define SINK_BYTES TAIL_BYTES_MAX
/* A response that the socket does not take is kept in memory up to here; then the worker waits for the client. */
#define SPOOL_BYTES_MAX (64 * 1024 * 1024)

typedef struct {
    channel_t *channel;
    apr_uint32_t connection, request;
    int fd;
    apr_interval_time_t timeout; /* how long to wait for a client that takes nothing, once the spool is full */
    unsigned char *buffer;       /* of SINK_BYTES */
    apr_size_t used;
    int spool;                   /* a memfd; -1 before it is needed */
    apr_off_t spool_from, spool_to;
    int tailing;                 /* a TAIL was sent, so nothing more goes to the socket */
    unsigned tails;
    unsigned files; /* of these */
    apr_size_t tail_bytes;
    int gone;                    /* the client has gone, or no more can be kept: bytes are dropped */
    apr_off_t bytes;             /* accepted so far, head and framing included */
} sink_t;

void sink_write(sink_t *sink, const void *data, apr_size_t bytes);
/* A part of a regular file, which Maitred delivers. */
void sink_file(sink_t *sink, int fd, apr_off_t offset, apr_off_t length);
/* Sends what the socket takes now. */
void sink_flush(sink_t *sink);
/* Whether there is something that the socket has not taken. */
int sink_holds(const sink_t *sink);
/* Sends what the socket takes, and leaves the rest to Maitred. */
void sink_end(sink_t *sink);

/* ---- chunks.c: the body of a program that writes its own head, and chunks. ---- */

typedef struct {
    int state;                 /* 0 before the first */
    unsigned digits;           /* of the size at hand */
    apr_off_t left;            /* of the chunk at hand */
} chunks_t;

/* How many of the next `bytes` are content, which are then behind it; 0 if the next one belongs to the framing. */
apr_size_t chunks_content(chunks_t *chunks, apr_size_t bytes);
/* Takes a byte of the framing; 0 if it is none. */
int chunks_frame(chunks_t *chunks, char byte);
/* Whether the last chunk, and what may follow it, was there. */
int chunks_over(const chunks_t *chunks);

/* ---- filters.c: a request of Apache's, between Maitred's frame and the sink. ---- */

typedef enum { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE } framing_e;

/* Kept as the connection's configuration of this module. */
typedef struct {
    maitred_request_t *request;
    conn_rec *c;
    request_rec *r;            /* NULL before it is read and after it is logged */
    apr_bucket_brigade *input; /* what is left of head and body */
    sink_t sink;
    char *head;                /* of the response, until it is complete; then NULL */
    apr_size_t head_used, head_room;
    int status;                /* 0 before the head is complete */
    unsigned interim_count;    /* informational responses that were sent */
    int interim_status;        /* of the last of them */
    int in_body;
    framing_e framing;
    int chunked;               /* the program writes chunks of its own */
    int unstated;              /* a length is Apache's own finding, and trailers are to follow: so the body is in chunks */
    chunks_t chunks;
    apr_off_t left;            /* of the stated length */
    apr_off_t body_bytes;
    int complete, broken;
    int merged;                /* trailers of the request are among its fields (MergeTrailers) */
    request_rec *answering;    /* which request of a chain of internal redirects wrote the head, */
    int answering_status;      /* and its status then: a change means that it failed later */
} maitred_conn_t;

/* PROTOCOL.md, section 5: bytes of an informational response, and how many a request may have. */
#define INTERIM_BYTES_MAX (16 * 1024)
#define INTERIM_MAX 16

void filters_register(void);
/* Adds both filters to the connection of a request. */
void filters_add(maitred_conn_t *mc);
/* No more of this response is to come: what the socket does not take is Maitred's. */
void filters_end(maitred_conn_t *mc);
/* What follows from a head that is complete; in head.c. 0 if it cannot be sent. */
int head_finish(maitred_conn_t *mc, apr_size_t head_bytes);

/* ---- trailers.c ---- */

/* Whether the client gets fields behind the content, once the framing is known. */
int trailers_follow(const maitred_conn_t *mc);
/* Writes the last chunk, and the trailers, NULL if there is no table of them. */
void trailers_end(maitred_conn_t *mc, const apr_table_t *trailers);

/* ---- request_trailers.c ---- */

void request_trailers_register(void);

/* ---- sendfile.c ---- */

/* Makes `bb` the file that `path` names, if it is one below `root`. Otherwise the response is a 500. */
apr_status_t sendfile_named(request_rec *r, apr_bucket_brigade *bb, const char *root, const char *path);

/* ---- mod_maitred.c ---- */

/* The configuration of a request; NULL for connections that are not Maitred's. */
maitred_conn_t *maitred_conn(const conn_rec *c);
/* Whether the response to this request may name a file, given a root. */
int maitred_sendfile_allowed(const request_rec *r);
void maitred_count_bytes_out(conn_rec *c, apr_off_t bytes);

#endif
