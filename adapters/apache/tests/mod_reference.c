/* The reference application of the conformance kit (../../conformance/README.md) as a handler of Apache's. What only reads
 * the request, /echo and /sum, is reference.py, a CGI program. */
#include <stdlib.h>
#include <string.h>

#include "apr_strings.h"
#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "util_script.h"

module AP_MODULE_DECLARE_DATA reference_module;

static int write_times(request_rec *r, char byte, apr_size_t count)
{
    char *piece = apr_palloc(r->pool, count);
    memset(piece, byte, count);
    return ap_rwrite(piece, (int)count, r) == (int)count ? OK : HTTP_INTERNAL_SERVER_ERROR;
}

static int answer_bytes(request_rec *r, long count, long unused)
{
    (void)unused;
    ap_set_content_length(r, count);
    return write_times(r, 'x', (apr_size_t)count);
}

static int answer_user(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    if (r->user != NULL) {
        ap_rputs(apr_pstrcat(r->pool, r->user, " ", r->ap_auth_type != NULL ? r->ap_auth_type : "", NULL), r);
    }
    return OK;
}

static int answer_chunks(request_rec *r, long count, long size)
{
    while (count-- > 0 && !r->connection->aborted) {
        write_times(r, 'y', (apr_size_t)size);
        ap_rflush(r);
    }
    return OK;
}

static int answer_status(request_rec *r, long status, long unused)
{
    (void)unused;
    r->status = (int)status;
    return OK;
}

static int answer_error(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "asked for by /error");
    return HTTP_INTERNAL_SERVER_ERROR;
}

static int answer_error_late(request_rec *r, long unused, long unused_too)
{
    ap_rputs("first", r);
    ap_rflush(r);
    return answer_error(r, unused, unused_too);
}

static int answer_short(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    ap_set_content_length(r, 10);
    ap_rputs("12345", r);
    ap_rflush(r);
    return OK;
}

static int answer_long(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    ap_set_content_length(r, 5);
    ap_rputs("1234567890", r);
    ap_rflush(r);
    return OK;
}

static int answer_slow(request_rec *r, long milliseconds, long unused)
{
    (void)unused;
    apr_sleep(milliseconds * 1000);
    ap_rputs("slow", r);
    return OK;
}

static int answer_inject(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    apr_table_setn(r->headers_out, "X-Value", "a\r\nInjected: yes");
    ap_rputs("inject", r);
    return OK;
}

static int answer_hop(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    apr_table_setn(r->headers_out, "Connection", "keep-alive, X-Named");
    apr_table_setn(r->headers_out, "X-Named", "1");
    apr_table_setn(r->headers_out, "Keep-Alive", "timeout=5");
    apr_table_setn(r->headers_out, "Proxy-Connection", "keep-alive");
    apr_table_setn(r->headers_out, "Transfer-Encoding", "chunked");
    ap_rputs("hop", r);
    return OK;
}

static int answer_426(request_rec *r, long unused, long unused_too)
{
    (void)unused, (void)unused_too;
    r->status = HTTP_UPGRADE_REQUIRED;
    apr_table_setn(r->headers_out, "Upgrade", "websocket");
    return OK;
}

static int answer_early_hints(request_rec *r, long more, long unused)
{
    (void)unused;
    r->status = 103;
    r->status_line = "103 Early Hints";
    do {
        apr_table_setn(r->headers_out, "Link", "</style.css>; rel=preload; as=style");
        ap_send_interim_response(r, 1);
    } while (--more > 0);
    r->status = HTTP_OK;
    r->status_line = NULL;
    ap_rputs("hinted", r);
    return OK;
}

/* Of no stated length, unless `length` says so; in pieces if `flushes`. */
static int answer_trailers(request_rec *r, long length, long flushes)
{
    if (length > 0) {
        ap_set_content_length(r, length);
    }
    apr_table_setn(r->headers_out, "Trailer", "X-Sum");
    ap_rputs("bo", r);
    if (flushes) {
        ap_rflush(r);
    }
    ap_rputs("dy", r);
    apr_table_setn(r->trailers_out, "X-Sum", "4");
    apr_table_setn(r->trailers_out, "Content-Length", "9");
    return OK;
}

/* Not part of the kit: what may not be sent, and behind it `count` trailers `x` with values of `bytes`. */
static int answer_odd_trailers(request_rec *r, long count, long bytes)
{
    char *value = apr_pcalloc(r->pool, (apr_size_t)bytes + 1);
    memset(value, 'y', (apr_size_t)bytes);
    ap_rputs("body", r);
    ap_rflush(r);
    apr_table_addn(r->trailers_out, "X-Line", "a\r\nX-Injected: yes");
    apr_table_addn(r->trailers_out, "X-Feed", "a\nX-Injected: yes");
    apr_table_addn(r->trailers_out, "X-Injected: yes\r\nX-Name", "a");
    apr_table_addn(r->trailers_out, "X-Control", "a\001");
    apr_table_addn(r->trailers_out, "X Space", "a");
    apr_table_addn(r->trailers_out, "", "a");
    apr_table_addn(r->trailers_out, "SET-COOKIE", "a=b");
    while (count-- > 0) {
        apr_table_addn(r->trailers_out, "x", value);
    }
    return OK;
}

/* Not part of the kit: fails when it has its trailers. */
static int answer_failed_trailers(request_rec *r, long status, long unused)
{
    (void)unused;
    apr_table_setn(r->headers_out, "Trailer", "X-Sum");
    apr_table_setn(r->trailers_out, "X-Sum", "4");
    return (int)status;
}

static int append_line(void *data, const char *name, const char *value)
{
    apr_array_header_t *lines = data;
    if (*name == 'x') {
        APR_ARRAY_PUSH(lines, char *) = apr_pstrcat(lines->pool, name, ": ", value, "\n", NULL);
    }
    return 1;
}

static int compare_lines(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

/* With `merged`, which is not part of the kit, those among the fields of the request. */
static int answer_request_trailers(request_rec *r, long merged, long unused)
{
    apr_array_header_t *lines = apr_array_make(r->pool, 4, sizeof(char *));
    char piece[8192];
    long count = 0, got;
    int status = ap_setup_client_block(r, REQUEST_CHUNKED_DECHUNK);

    (void)unused;
    if (status != OK) {
        return status;
    }
    if (ap_should_client_block(r)) {
        while ((got = ap_get_client_block(r, piece, sizeof(piece))) > 0) {
            count += got;
        }
        if (got < 0) {
            return HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    ap_rprintf(r, "%ld\n", count);
    apr_table_do(append_line, lines, merged ? r->headers_in : r->trailers_in, NULL);
    qsort(lines->elts, (size_t)lines->nelts, sizeof(char *), compare_lines);
    for (int n = 0; n < lines->nelts; n++) {
        ap_rputs(APR_ARRAY_IDX(lines, n, char *), r);
    }
    return OK;
}

static apr_file_t *pattern_file(request_rec *r, long count, char **name)
{
    apr_file_t *file;
    char byte;
    *name = apr_psprintf(r->pool, "%s/maitred-reference-XXXXXX", ap_server_root_relative(r->pool, "."));
    if (apr_file_mktemp(&file, *name, APR_FOPEN_CREATE | APR_FOPEN_READ | APR_FOPEN_WRITE | APR_FOPEN_BUFFERED, r->pool)) {
        return NULL;
    }
    for (long n = 0; n < count; n++) {
        byte = (char)(n % 251);
        apr_file_putc(byte, file);
    }
    apr_file_flush(file);
    return file;
}

static apr_status_t remove_file(void *name)
{
    return apr_file_remove(name, NULL);
}

static int answer_file(request_rec *r, long count, long unused)
{
    char *name;
    apr_file_t *file = pattern_file(r, count, &name);
    apr_bucket_brigade *bb = apr_brigade_create(r->pool, r->connection->bucket_alloc);
    (void)unused;
    if (file == NULL) {
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    apr_file_remove(name, r->pool);
    ap_set_content_length(r, count);
    apr_brigade_insert_file(bb, file, 0, count, r->pool);
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(bb->bucket_alloc));
    return ap_pass_brigade(r->output_filters, bb) == APR_SUCCESS ? OK : AP_FILTER_ERROR;
}

static int answer_sendfile(request_rec *r, long count, long unused)
{
    char *name;
    (void)unused;
    if (pattern_file(r, count, &name) == NULL) {
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    apr_pool_cleanup_register(r->pool, name, remove_file, apr_pool_cleanup_null);
    apr_table_setn(r->headers_out, "X-Sendfile", name);
    ap_rputs("this is not the body", r);
    return OK;
}

static int answer_sendfile_path(request_rec *r, long unused, long unused_too)
{
    char *path = apr_pstrdup(r->pool, r->args != NULL ? r->args : "");
    (void)unused, (void)unused_too;
    ap_unescape_url(path);
    apr_table_setn(r->headers_out, "X-Sendfile", path);
    ap_rputs("instead", r);
    return OK;
}

static int answer_refused(request_rec *r, long unused, long unused_too)
{
    (void)r, (void)unused, (void)unused_too;
    return HTTP_FORBIDDEN;
}

static const struct {
    const char *name;
    int (*answer)(request_rec *r, long first, long second);
} ANSWERS[] = {
    {"/user", answer_user},   {"/bytes", answer_bytes},   {"/chunks", answer_chunks}, {"/status", answer_status},   {"/error", answer_error},
    {"/short", answer_short}, {"/long", answer_long},     {"/error-late", answer_error_late}, {"/slow", answer_slow},
    {"/inject", answer_inject}, {"/hop", answer_hop},     {"/file", answer_file},       {"/sendfile", answer_sendfile},
    {"/ws-refused", answer_refused}, {"/426", answer_426}, {"/early-hints", answer_early_hints},
    {"/sendfile-path", answer_sendfile_path}, {"/trailers", answer_trailers},
    {"/request-trailers", answer_request_trailers},
    {"/odd-trailers", answer_odd_trailers}, {"/failed-trailers", answer_failed_trailers},
};

static int answer(request_rec *r)
{
    const char *numbers = strchr(r->uri + 1, '/');
    apr_size_t name_bytes = numbers ? (apr_size_t)(numbers - r->uri) : strlen(r->uri);
    long first = numbers ? (long)apr_atoi64(numbers + 1) : 0, second = 0;

    if (r->handler == NULL || strcmp(r->handler, "reference") != 0) {
        return DECLINED;
    }
    if (numbers != NULL && (numbers = strchr(numbers + 1, '/')) != NULL) {
        second = (long)apr_atoi64(numbers + 1);
    }
    ap_set_content_type(r, "text/plain");
    for (unsigned n = 0; n < sizeof(ANSWERS) / sizeof(ANSWERS[0]); n++) {
        if (strlen(ANSWERS[n].name) == name_bytes && memcmp(ANSWERS[n].name, r->uri, name_bytes) == 0) {
            return ANSWERS[n].answer(r, first, second);
        }
    }
    return HTTP_NOT_FOUND;
}

static void register_hooks(apr_pool_t *pool)
{
    (void)pool;
    ap_hook_handler(answer, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(reference) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, NULL, register_hooks, 0};
