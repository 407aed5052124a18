/* The dynamic answers of `cargo xtask bench arena` in nginx: `arena_sum` adds the numbers of the query and of the body,
 * `arena_json FILE` makes JSON of the first items of a data set that is read with the configuration. */

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#include "arena_data.h"

typedef struct {
    ngx_array_t  *items;
} arena_conf_t;

static ngx_int_t arena_sum_handler(ngx_http_request_t *r);
static ngx_int_t arena_json_handler(ngx_http_request_t *r);
static void *arena_create_conf(ngx_conf_t *cf);
static char *arena_sum(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);
static char *arena_json(ngx_conf_t *cf, ngx_command_t *cmd, void *conf);

static ngx_command_t arena_commands[] = {
    { ngx_string("arena_sum"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, arena_sum, 0, 0, NULL },
    { ngx_string("arena_json"), NGX_HTTP_LOC_CONF | NGX_CONF_TAKE1, arena_json, NGX_HTTP_LOC_CONF_OFFSET, 0, NULL },
    ngx_null_command
};

static ngx_http_module_t arena_context = {
    NULL, NULL, NULL, NULL, NULL, NULL, arena_create_conf, NULL
};

ngx_module_t ngx_http_arena_module = {
    NGX_MODULE_V1, &arena_context, arena_commands, NGX_HTTP_MODULE,
    NULL, NULL, NULL, NULL, NULL, NULL, NULL, NGX_MODULE_V1_PADDING
};

static void *
arena_create_conf(ngx_conf_t *cf)
{
    return ngx_pcalloc(cf->pool, sizeof(arena_conf_t));
}

static char *
arena_handle(ngx_conf_t *cf, ngx_http_handler_pt handler)
{
    ngx_http_core_loc_conf_t  *location;

    location = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    location->handler = handler;
    return NGX_CONF_OK;
}

static char *
arena_sum(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    return arena_handle(cf, arena_sum_handler);
}

static char *
arena_json(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t     *arguments = cf->args->elts;
    arena_conf_t  *own = conf;

    if (ngx_conf_full_name(cf->cycle, &arguments[1], 0) != NGX_OK) {
        return NGX_CONF_ERROR;
    }
    own->items = arena_data_read(cf->pool, cf->log, &arguments[1]);
    return own->items == NULL ? NGX_CONF_ERROR : arena_handle(cf, arena_json_handler);
}

/* Sends a response of one buffer. */
static ngx_int_t
arena_send(ngx_http_request_t *r, ngx_buf_t *b, const char *type, size_t type_len)
{
    ngx_int_t    rc;
    ngx_chain_t  out;

    b->last_buf = (r == r->main) ? 1 : 0;
    b->last_in_chain = 1;
    r->headers_out.status = NGX_HTTP_OK;
    r->headers_out.content_length_n = b->last - b->pos;
    r->headers_out.content_type.data = (u_char *) type;
    r->headers_out.content_type.len = type_len;
    r->headers_out.content_type_len = type_len;
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}

/* A number that may have a sign. */
static ngx_int_t
arena_number(u_char *p, u_char *end, int64_t *sum)
{
    int64_t     number;
    ngx_uint_t  is_negative;

    is_negative = (p < end && *p == '-');
    p += is_negative;
    if (p == end || end - p > 15) {
        return NGX_ERROR;
    }
    for (number = 0; p < end; p++) {
        if (*p < '0' || *p > '9') {
            return NGX_ERROR;
        }
        number = number * 10 + (*p - '0');
    }
    *sum += is_negative ? -number : number;
    return NGX_OK;
}

/* The numbers behind each = of the query. */
static ngx_int_t
arena_query(ngx_str_t *query, int64_t *sum)
{
    u_char  *p, *end, *next, *value;

    end = query->data + query->len;
    for (p = query->data; p < end; p = next + 1) {
        next = ngx_strlchr(p, end, '&');
        if (next == NULL) {
            next = end;
        }
        value = ngx_strlchr(p, next, '=');
        if (value == NULL || arena_number(value + 1, next, sum) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    return NGX_OK;
}

/* The number that the body is; it is short, so that it lies in memory. */
static ngx_int_t
arena_body(ngx_http_request_t *r, int64_t *sum)
{
    size_t        length, part;
    u_char        text[32];
    ngx_chain_t  *link;

    if (r->request_body == NULL) {
        return NGX_ERROR;
    }
    length = 0;
    for (link = r->request_body->bufs; link != NULL; link = link->next) {
        part = ngx_buf_size(link->buf);
        if (part > 0 && (!ngx_buf_in_memory(link->buf) || length + part > sizeof(text))) {
            return NGX_ERROR;
        }
        ngx_memcpy(text + length, link->buf->pos, part);
        length += part;
    }
    while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) {
        length--;
    }
    return arena_number(text, text + length, sum);
}

static ngx_int_t
arena_sum_answer(ngx_http_request_t *r)
{
    int64_t     sum;
    ngx_buf_t  *b;

    sum = 0;
    if (arena_query(&r->args, &sum) != NGX_OK || (r->method == NGX_HTTP_POST && arena_body(r, &sum) != NGX_OK)) {
        return NGX_HTTP_BAD_REQUEST;
    }
    b = ngx_create_temp_buf(r->pool, NGX_INT64_LEN);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->last = ngx_sprintf(b->last, "%L", sum);
    return arena_send(r, b, "text/plain", sizeof("text/plain") - 1);
}

static void
arena_sum_with_body(ngx_http_request_t *r)
{
    ngx_http_finalize_request(r, arena_sum_answer(r));
}

static ngx_int_t
arena_sum_handler(ngx_http_request_t *r)
{
    ngx_int_t  rc;

    if (r->method == NGX_HTTP_POST) {
        rc = ngx_http_read_client_request_body(r, arena_sum_with_body);
        return rc >= NGX_HTTP_SPECIAL_RESPONSE ? rc : NGX_DONE;
    }
    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    rc = ngx_http_discard_request_body(r);
    return rc == NGX_OK ? arena_sum_answer(r) : rc;
}

/* The number of items, which is the last part of the path. */
static ngx_int_t
arena_count(ngx_http_request_t *r, ngx_uint_t most)
{
    u_char     *p, *end;
    ngx_int_t   count;

    end = r->uri.data + r->uri.len;
    for (p = end; p > r->uri.data && p[-1] != '/'; p--) { /* void */ }
    count = ngx_atoi(p, end - p);
    return count == NGX_ERROR || (ngx_uint_t) count > most ? NGX_ERROR : count;
}

static ngx_int_t
arena_json_handler(ngx_http_request_t *r)
{
    size_t         bytes;
    ngx_int_t      at, count, factor, rc;
    ngx_str_t      text;
    ngx_buf_t     *b;
    arena_conf_t  *own;
    arena_item_t  *items;

    if (!(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }
    rc = ngx_http_discard_request_body(r);
    if (rc != NGX_OK) {
        return rc;
    }
    own = ngx_http_get_module_loc_conf(r, ngx_http_arena_module);
    count = arena_count(r, own->items->nelts);
    if (count == NGX_ERROR) {
        return NGX_HTTP_NOT_FOUND;
    }
    if (ngx_http_arg(r, (u_char *) "m", 1, &text) != NGX_OK) {
        return NGX_HTTP_BAD_REQUEST;
    }
    factor = ngx_atoi(text.data, text.len);
    if (factor == NGX_ERROR) {
        return NGX_HTTP_BAD_REQUEST;
    }
    items = own->items->elts;
    bytes = sizeof("{\"items\":[],\"count\":}") + NGX_INT_T_LEN;
    for (at = 0; at < count; at++) {
        bytes += arena_item_bytes_max(&items[at]);
    }
    b = ngx_create_temp_buf(r->pool, bytes);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->last = ngx_cpymem(b->last, "{\"items\":[", sizeof("{\"items\":[") - 1);
    for (at = 0; at < count; at++) {
        if (at > 0) {
            *b->last++ = ',';
        }
        b->last = arena_item_write(b->last, &items[at], factor);
    }
    b->last = ngx_sprintf(b->last, "],\"count\":%i}", count);
    return arena_send(r, b, "application/json", sizeof("application/json") - 1);
}
