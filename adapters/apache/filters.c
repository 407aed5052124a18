/* What stands between a request of Apache's and Maitred: the connection's input and output, and the response's fields. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "apr_atomic.h"
#include "apr_portable.h"
#include "apr_strings.h"
#include "ap_mpm.h"

#include "maitred.h"

APLOG_USE_MODULE(maitred);

/* Smaller parts of files are cheaper to write than to pass. */
#define FILE_BYTES_MIN (64 * 1024)
#define HEAD_BYTES_MAX (1024 * 1024)
#define CHUNK_LINE_BYTES 24

static ap_filter_rec_t *input_handle, *output_handle, *fields_handle;

/* The first buckets of the input, up to `end`, go to `bb`, or copies of them. */
static apr_status_t give(maitred_conn_t *mc, apr_bucket_brigade *bb, const apr_bucket *end, int copies)
{
    apr_bucket *e = APR_BRIGADE_FIRST(mc->input);
    while (e != end && e != APR_BRIGADE_SENTINEL(mc->input)) {
        apr_bucket *next = APR_BUCKET_NEXT(e), *given = e;
        if (!copies) {
            APR_BUCKET_REMOVE(e);
        }
        else if (apr_bucket_copy(e, &given) != APR_SUCCESS) {
            return APR_EGENERAL;
        }
        APR_BRIGADE_INSERT_TAIL(bb, given);
        e = next;
    }
    return APR_SUCCESS;
}

static apr_status_t input(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode, apr_read_type_e block,
                          apr_off_t bytes)
{
    maitred_conn_t *mc = f->ctx;
    apr_bucket *end;
    apr_status_t status;

    (void)block; /* everything is here already */
    if (mode == AP_MODE_INIT) {
        return APR_SUCCESS;
    }
    if (APR_BRIGADE_EMPTY(mc->input)) {
        return APR_EOF;
    }
    switch (mode) {
    case AP_MODE_GETLINE:
        return apr_brigade_split_line(bb, mc->input, APR_BLOCK_READ, HUGE_STRING_LEN);
    case AP_MODE_EXHAUSTIVE:
        APR_BRIGADE_CONCAT(bb, mc->input);
        return APR_SUCCESS;
    case AP_MODE_READBYTES:
    case AP_MODE_SPECULATIVE:
        status = apr_brigade_partition(mc->input, bytes, &end);
        if (status != APR_SUCCESS && status != APR_INCOMPLETE) {
            return status;
        }
        return give(mc, bb, end, mode == AP_MODE_SPECULATIVE);
    default:
        return APR_ENOTIMPL;
    }
}

static request_rec *last_of(request_rec *r)
{
    while (r != NULL && r->next != NULL) {
        r = r->next;
    }
    return r;
}

/* Bytes of the head, up to its end; how many of `bytes` belong to it. */
static apr_size_t take_head(maitred_conn_t *mc, const char *data, apr_size_t bytes)
{
    apr_size_t before = mc->head_used, count;
    const char *end;

    if (mc->head_room < before + bytes + 1) {
        char *head;
        mc->head_room = 2 * (before + bytes) + 1024;
        head = apr_palloc(mc->c->pool, mc->head_room);
        if (before > 0) {
            memcpy(head, mc->head, before);
        }
        mc->head = head;
    }
    memcpy(mc->head + before, data, bytes);
    mc->head[before + bytes] = 0;
    end = strstr(mc->head + (before > 3 ? before - 3 : 0), "\r\n\r\n");
    if (end == NULL) {
        mc->head_used += bytes;
        mc->broken |= mc->head_used > HEAD_BYTES_MAX;
        return bytes;
    }
    count = (apr_size_t)(end + 4 - mc->head);
    mc->broken |= !head_finish(mc, count);
    if (mc->broken) {
        ap_log_cerror(APLOG_MARK, APLOG_ERR, 0, mc->c, "maitred: a response whose head cannot be sent");
    }
    if (mc->in_body) {
        mc->answering = last_of(mc->r);
        mc->answering_status = mc->answering ? mc->answering->status : 0;
    }
    mc->head_used = 0;
    return count - before;
}

/* Whether the request has failed since its head was written. What Apache writes then would stand inside the body. */
static int failed_late(const maitred_conn_t *mc)
{
    return mc->answering != NULL && mc->r != NULL
        && (last_of(mc->r) != mc->answering || mc->answering->status != mc->answering_status);
}

/* How many of `bytes` may still be written. */
static apr_off_t allowed(maitred_conn_t *mc, apr_off_t bytes)
{
    if (mc->framing == FRAMING_NONE || mc->broken) {
        return 0;
    }
    if (failed_late(mc)) {
        mc->broken = 1;
        return 0;
    }
    if (mc->framing == FRAMING_LENGTH) {
        if (bytes > mc->left) {
            ap_log_cerror(APLOG_MARK, APLOG_WARNING, 0, mc->c, "maitred: a response is longer than its Content-Length; cut");
            bytes = mc->left;
        }
        mc->left -= bytes;
    }
    return bytes;
}

static void begin_piece(maitred_conn_t *mc, apr_off_t bytes)
{
    mc->body_bytes += bytes;
    if (mc->framing == FRAMING_CHUNKED) {
        char line[CHUNK_LINE_BYTES];
        int count = apr_snprintf(line, sizeof(line), "%" APR_UINT64_T_HEX_FMT "\r\n", (apr_uint64_t)bytes);
        sink_write(&mc->sink, line, (apr_size_t)count);
    }
}

static void end_piece(maitred_conn_t *mc)
{
    if (mc->framing == FRAMING_CHUNKED) {
        sink_write(&mc->sink, "\r\n", 2);
    }
}

static void take_body(maitred_conn_t *mc, const char *data, apr_size_t bytes)
{
    apr_off_t count = allowed(mc, (apr_off_t)bytes);
    if (count > 0) {
        begin_piece(mc, count);
        sink_write(&mc->sink, data, (apr_size_t)count);
        end_piece(mc);
    }
}

/* The same of a program that writes chunks. */
static void take_chunks(maitred_conn_t *mc, const char *data, apr_size_t bytes)
{
    while (bytes > 0 && !mc->broken) {
        apr_size_t count = chunks_content(&mc->chunks, bytes);
        if (count > 0) {
            take_body(mc, data, count);
        }
        else if (chunks_frame(&mc->chunks, *data)) {
            count = 1;
        }
        else {
            ap_log_cerror(APLOG_MARK, APLOG_ERR, 0, mc->c, "maitred: a program writes chunks that are none; its response is cut");
            mc->broken = 1;
        }
        data += count;
        bytes -= count;
    }
}

static void take_bytes(maitred_conn_t *mc, const char *data, apr_size_t bytes)
{
    while (bytes > 0 && !mc->in_body && !mc->broken) {
        apr_size_t head = take_head(mc, data, bytes);
        data += head;
        bytes -= head;
    }
    if (bytes > 0 && mc->chunked) {
        take_chunks(mc, data, bytes);
    }
    else if (bytes > 0) {
        take_body(mc, data, bytes);
    }
}

/* A large part of a file in the body goes to Maitred as it is; whether it did. */
static int take_file(maitred_conn_t *mc, const apr_bucket *e)
{
    const apr_bucket_file *file = e->data;
    apr_os_file_t fd;
    struct stat found;
    apr_off_t count;

    if (!mc->in_body || mc->chunked || e->length < FILE_BYTES_MIN || apr_os_file_get(&fd, file->fd) != APR_SUCCESS
        || fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size < e->start + (apr_off_t)e->length) {
        return 0;
    }
    count = allowed(mc, (apr_off_t)e->length);
    if (count > 0) {
        begin_piece(mc, count);
        sink_file(&mc->sink, fd, e->start, count);
        end_piece(mc);
    }
    return 1;
}

static void end_of_body(maitred_conn_t *mc)
{
    if (!mc->in_body || mc->complete || mc->broken || failed_late(mc) || mc->c->aborted) {
        return;
    }
    if (mc->chunked && mc->framing != FRAMING_NONE && !chunks_over(&mc->chunks)) {
        ap_log_cerror(APLOG_MARK, APLOG_WARNING, 0, mc->c, "maitred: a program has ended before the last of its chunks");
        return;
    }
    if (mc->framing == FRAMING_CHUNKED) {
        /* Of the one that wrote the head: it has not failed since. */
        trailers_end(mc, mc->answering != NULL ? mc->answering->trailers_out : NULL);
    }
    if (mc->framing == FRAMING_LENGTH && mc->left > 0) {
        ap_log_cerror(APLOG_MARK, APLOG_WARNING, 0, mc->c, "maitred: a response is shorter than its Content-Length");
        return;
    }
    mc->complete = 1;
}

void filters_end(maitred_conn_t *mc)
{
    sink_flush(&mc->sink);
    if (mc->status == 0 && sink_holds(&mc->sink)) {
        mc->status = mc->interim_status; /* the client has a part of it: nothing else may follow */
    }
    sink_end(&mc->sink);
}

/* The request is over: everything is sent before it is logged. */
static void end_of_request(maitred_conn_t *mc)
{
    filters_end(mc);
    maitred_count_bytes_out(mc->c, mc->sink.bytes);
    mc->c->aborted |= mc->sink.gone != 0;
    /* For the access log's %X. */
    mc->c->keepalive = mc->complete && mc->request->flags & FLAG_KEEP ? AP_CONN_KEEPALIVE : AP_CONN_CLOSE;
    mc->r = NULL;
}

static void take_metadata(maitred_conn_t *mc, const apr_bucket *e)
{
    if (AP_BUCKET_IS_ERROR(e)) {
        mc->broken |= mc->in_body && !mc->complete;
    }
    else if (APR_BUCKET_IS_EOS(e)) {
        end_of_body(mc);
    }
    else if (APR_BUCKET_IS_FLUSH(e)) {
        sink_flush(&mc->sink);
    }
    else if (AP_BUCKET_IS_EOR(e) && mc->r != NULL) {
        end_of_request(mc);
    }
}

static apr_status_t take_data(maitred_conn_t *mc, apr_bucket *e)
{
    const char *data;
    apr_size_t bytes;
    apr_status_t status;

    if (APR_BUCKET_IS_FILE(e) && take_file(mc, e)) {
        return APR_SUCCESS;
    }
    status = apr_bucket_read(e, &data, &bytes, APR_NONBLOCK_READ);
    if (APR_STATUS_IS_EAGAIN(status)) {
        sink_flush(&mc->sink); /* what there is need not wait for what a program has not written yet */
        status = apr_bucket_read(e, &data, &bytes, APR_BLOCK_READ);
    }
    if (status == APR_SUCCESS && bytes > 0) {
        take_bytes(mc, data, bytes);
    }
    return status;
}

static apr_status_t output(ap_filter_t *f, apr_bucket_brigade *bb)
{
    maitred_conn_t *mc = f->ctx;
    apr_status_t status = APR_SUCCESS;

    while (bb != NULL && !APR_BRIGADE_EMPTY(bb)) {
        apr_bucket *e = APR_BRIGADE_FIRST(bb);
        if (mc->sink.gone || channel_cancelled(mc->sink.channel, mc->sink.connection, mc->sink.request)) {
            mc->c->aborted = 1;
        }
        if (APR_BUCKET_IS_METADATA(e)) {
            take_metadata(mc, e);
        }
        else if (!mc->c->aborted && status == APR_SUCCESS) {
            status = take_data(mc, e);
            mc->broken |= status != APR_SUCCESS;
        }
        apr_bucket_delete(e);
    }
    return mc->c->aborted ? APR_ECONNABORTED : status;
}

/* Fields about the connection. */
static const char *const HOP_BY_HOP[] = {"Connection", "Keep-Alive", "Proxy-Connection", "TE",
                                         "Trailer",    "Upgrade",    "Transfer-Encoding"};
#define HOP_BY_HOP_COUNT (sizeof(HOP_BY_HOP) / sizeof(HOP_BY_HOP[0]))

/* Takes a field out of the response, and says so once per process; `number` is its place in HOP_BY_HOP, or behind it. */
static void drop(request_rec *r, const char *name, unsigned number)
{
    static volatile apr_uint32_t noted[HOP_BY_HOP_COUNT + 1];

    if (apr_table_get(r->headers_out, name) == NULL && apr_table_get(r->err_headers_out, name) == NULL) {
        return;
    }
    apr_table_unset(r->headers_out, name);
    apr_table_unset(r->err_headers_out, name);
    if (apr_atomic_cas32(&noted[number], 1, 0) == 0) {
        ap_log_rerror(APLOG_MARK, APLOG_DEBUG, 0, r, "maitred: the field %s concerns the connection, and is not sent", name);
    }
}

/* What a field `Connection` names concerns the connection as well (RFC 9110, section 7.6.1). */
static int drop_named(void *data, const char *name, const char *list)
{
    request_rec *r = data;
    const char *at = list;
    (void)name;
    while (*at != '\0') {
        char *one = ap_get_token(r->pool, &at, 0);
        /* `Upgrade` is one of the others, or stays. Without a length Apache finds its own framing. */
        if (*one != '\0' && ap_cstr_casecmp(one, "upgrade") != 0) {
            drop(r, one, HOP_BY_HOP_COUNT);
        }
        at += strcspn(at, ",");
        at += *at == ',';
    }
    return 1;
}

static void drop_hop_by_hop(request_rec *r)
{
    apr_table_t *const tables[] = {r->headers_out, r->err_headers_out};
    for (unsigned n = 0; n < 2; n++) {
        if (apr_table_get(tables[n], "Connection") != NULL) {
            /* Of a copy: the table changes meanwhile. */
            apr_table_do(drop_named, r, apr_table_copy(r->pool, tables[n]), "Connection", NULL);
        }
    }
    for (unsigned n = 0; n < HOP_BY_HOP_COUNT; n++) {
        /* What announces trailers stays where they may follow; head.c knows the rest. */
        int stays = (r->status == HTTP_UPGRADE_REQUIRED && strcmp(HOP_BY_HOP[n], "Upgrade") == 0)
            || (maitred_conn(r->connection)->request->trailers && strcmp(HOP_BY_HOP[n], "Trailer") == 0);
        if (!stays) {
            drop(r, HOP_BY_HOP[n], n);
        }
    }
}

/* Before the first byte of a response: fields about the connection are not the application's, and one may name a file. */
static apr_status_t fields(ap_filter_t *f, apr_bucket_brigade *bb)
{
    request_rec *r = f->r;
    maitred_conn_t *mc = maitred_conn(r->connection);
    const char *root = mc->request->sendfile_root;
    const char *path = apr_table_get(r->headers_out, "X-Sendfile");

    if (f->ctx != NULL) { /* X-Sendfile has answered: whatever else comes is no part of it */
        apr_brigade_cleanup(bb);
        return APR_SUCCESS;
    }
    drop_hop_by_hop(r);
    mc->unstated = 0;
    if (path != NULL && root != NULL && maitred_sendfile_allowed(r)) {
        apr_status_t status;
        path = apr_pstrdup(r->pool, path);
        apr_table_unset(r->headers_out, "X-Sendfile");
        status = sendfile_named(r, bb, root, path);
        if (status != APR_SUCCESS) {
            return status;
        }
        f->ctx = r;
        return ap_pass_brigade(f->next, bb);
    }
    /* Of a response that is here as a whole, the filter behind this one states the length, and there could be no trailers. */
    mc->unstated = mc->request->trailers && apr_table_get(r->headers_out, "Content-Length") == NULL
        && r->trailers_out != NULL && !apr_is_empty_table(r->trailers_out);
    ap_remove_output_filter(f);
    return ap_pass_brigade(f->next, bb);
}

/* Apache's own idea of framing ends here: a connection that is to be closed gets no chunks from it, and one field that
 * head.c drops. */
static void before_reading(request_rec *r, conn_rec *c)
{
    maitred_conn_t *mc = maitred_conn(c);
    if (mc != NULL) {
        mc->r = r;
        c->keepalive = AP_CONN_CLOSE;
    }
}

static void insert_fields(request_rec *r)
{
    if (maitred_conn(r->connection) != NULL && r->main == NULL) {
        ap_add_output_filter_handle(fields_handle, NULL, r, r->connection);
    }
}

/* The trailers of what has failed do not belong to Apache's page about it, which has the same request_rec. */
static void insert_error_fields(request_rec *r)
{
    if (maitred_conn(r->connection) != NULL && r->trailers_out != NULL) {
        apr_table_clear(r->trailers_out);
    }
    insert_fields(r);
}

void filters_add(maitred_conn_t *mc)
{
    ap_add_input_filter_handle(input_handle, mc, NULL, mc->c);
    ap_add_output_filter_handle(output_handle, mc, NULL, mc->c);
}

void filters_register(void)
{
    input_handle = ap_register_input_filter("MAITRED_IN", input, NULL, AP_FTYPE_NETWORK);
    output_handle = ap_register_output_filter("MAITRED_OUT", output, NULL, AP_FTYPE_NETWORK);
    fields_handle = ap_register_output_filter("MAITRED_FIELDS", fields, NULL, AP_FTYPE_PROTOCOL - 1);
    ap_hook_pre_read_request(before_reading, NULL, NULL, APR_HOOK_LAST);
    ap_hook_insert_filter(insert_fields, NULL, NULL, APR_HOOK_LAST);
    ap_hook_insert_error_filter(insert_error_fields, NULL, NULL, APR_HOOK_LAST);
}
