/* Reads the data set, and writes its items. Only the shape that the benchmark makes is understood: the keys in their order,
 * strings without escapes. What is written is escaped all the same, as for any other data. */

#include "arena_data.h"

typedef struct {
    u_char      *at;
    u_char      *end;
    ngx_pool_t  *pool;
} arena_reader_t;

static void
arena_skip_space(arena_reader_t *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\n' || *r->at == '\r' || *r->at == '\t')) {
        r->at++;
    }
}

/* One character, which has to be there. */
static ngx_int_t
arena_take(arena_reader_t *r, u_char wanted)
{
    arena_skip_space(r);
    if (r->at == r->end || *r->at != wanted) {
        return NGX_ERROR;
    }
    r->at++;
    return NGX_OK;
}

/* One character, if it is there. */
static ngx_flag_t
arena_has(arena_reader_t *r, u_char wanted)
{
    return arena_take(r, wanted) == NGX_OK;
}

static ngx_int_t
arena_string(arena_reader_t *r, ngx_str_t *text)
{
    u_char  *begin;

    if (arena_take(r, '"') != NGX_OK) {
        return NGX_ERROR;
    }
    begin = r->at;
    while (r->at < r->end && *r->at != '"') {
        if (*r->at == '\\') {
            return NGX_ERROR;
        }
        r->at++;
    }
    if (r->at == r->end) {
        return NGX_ERROR;
    }
    text->data = begin;
    text->len = r->at - begin;
    r->at++;
    return NGX_OK;
}

static ngx_int_t
arena_number(arena_reader_t *r, ngx_int_t *number)
{
    u_char  *begin;

    arena_skip_space(r);
    begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') {
        r->at++;
    }
    *number = ngx_atoi(begin, r->at - begin);
    return *number == NGX_ERROR ? NGX_ERROR : NGX_OK;
}

static ngx_int_t
arena_flag(arena_reader_t *r, ngx_flag_t *flag)
{
    arena_skip_space(r);
    if (r->end - r->at >= 4 && ngx_strncmp(r->at, "true", 4) == 0) {
        *flag = 1;
        r->at += 4;
        return NGX_OK;
    }
    if (r->end - r->at >= 5 && ngx_strncmp(r->at, "false", 5) == 0) {
        *flag = 0;
        r->at += 5;
        return NGX_OK;
    }
    return NGX_ERROR;
}

static ngx_int_t
arena_tags(arena_reader_t *r, ngx_array_t *tags)
{
    ngx_str_t  *tag;

    if (ngx_array_init(tags, r->pool, 4, sizeof(ngx_str_t)) != NGX_OK || arena_take(r, '[') != NGX_OK) {
        return NGX_ERROR;
    }
    if (arena_has(r, ']')) {
        return NGX_OK;
    }
    do {
        tag = ngx_array_push(tags);
        if (tag == NULL || arena_string(r, tag) != NGX_OK) {
            return NGX_ERROR;
        }
    } while (arena_has(r, ','));
    return arena_take(r, ']');
}

/* A key that has to be the next one. */
static ngx_int_t
arena_key(arena_reader_t *r, const char *wanted)
{
    ngx_str_t  key;

    if (arena_string(r, &key) != NGX_OK || arena_take(r, ':') != NGX_OK) {
        return NGX_ERROR;
    }
    if (key.len != ngx_strlen(wanted) || ngx_strncmp(key.data, wanted, key.len) != 0) {
        return NGX_ERROR;
    }
    return NGX_OK;
}

#define ARENA_MEMBER(r, key, value) (arena_key(r, key) != NGX_OK || (value) != NGX_OK)
#define ARENA_NEXT(r) (arena_take(r, ',') != NGX_OK)

static ngx_int_t
arena_rating(arena_reader_t *r, arena_item_t *item)
{
    if (arena_take(r, '{') != NGX_OK
        || ARENA_MEMBER(r, "score", arena_number(r, &item->score)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "count", arena_number(r, &item->count)))
    {
        return NGX_ERROR;
    }
    return arena_take(r, '}');
}

static ngx_int_t
arena_item(arena_reader_t *r, arena_item_t *item)
{
    if (arena_take(r, '{') != NGX_OK
        || ARENA_MEMBER(r, "id", arena_number(r, &item->id)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "name", arena_string(r, &item->name)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "category", arena_string(r, &item->category)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "price", arena_number(r, &item->price)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "quantity", arena_number(r, &item->quantity)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "active", arena_flag(r, &item->active)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "tags", arena_tags(r, &item->tags)) || ARENA_NEXT(r)
        || ARENA_MEMBER(r, "rating", arena_rating(r, item)))
    {
        return NGX_ERROR;
    }
    return arena_take(r, '}');
}

static ngx_int_t
arena_items(arena_reader_t *r, ngx_array_t *items)
{
    arena_item_t  *item;

    if (arena_take(r, '[') != NGX_OK) {
        return NGX_ERROR;
    }
    do {
        item = ngx_array_push(items);
        if (item == NULL || arena_item(r, item) != NGX_OK) {
            return NGX_ERROR;
        }
    } while (arena_has(r, ','));
    return arena_take(r, ']');
}

/* The bytes of a file, in memory of the pool. */
static ngx_int_t
arena_file(ngx_pool_t *pool, ngx_log_t *log, ngx_str_t *path, arena_reader_t *r)
{
    ssize_t          got;
    ngx_file_t       file;
    ngx_file_info_t  info;

    ngx_memzero(&file, sizeof(ngx_file_t));
    file.name = *path;
    file.log = log;
    file.fd = ngx_open_file(path->data, NGX_FILE_RDONLY, NGX_FILE_OPEN, 0);
    if (file.fd == NGX_INVALID_FILE) {
        ngx_log_error(NGX_LOG_EMERG, log, ngx_errno, "open \"%V\"", path);
        return NGX_ERROR;
    }
    got = NGX_ERROR;
    if (ngx_fd_info(file.fd, &info) != NGX_FILE_ERROR) {
        r->at = ngx_palloc(pool, ngx_file_size(&info));
        if (r->at != NULL) {
            got = ngx_read_file(&file, r->at, ngx_file_size(&info), 0);
        }
    }
    ngx_close_file(file.fd);
    if (got == NGX_ERROR) {
        return NGX_ERROR;
    }
    r->end = r->at + got;
    r->pool = pool;
    return NGX_OK;
}

ngx_array_t *
arena_data_read(ngx_pool_t *pool, ngx_log_t *log, ngx_str_t *path)
{
    ngx_array_t     *items;
    arena_reader_t   r;

    items = ngx_array_create(pool, 64, sizeof(arena_item_t));
    if (items == NULL || arena_file(pool, log, path, &r) != NGX_OK) {
        return NULL;
    }
    if (arena_items(&r, items) != NGX_OK) {
        ngx_log_error(NGX_LOG_EMERG, log, 0, "\"%V\" is no data set", path);
        return NULL;
    }
    return items;
}

/* Quotes, and six bytes for each that has to be escaped. */
static size_t
arena_string_bytes_max(ngx_str_t *text)
{
    return 2 + text->len + ngx_escape_json(NULL, text->data, text->len);
}

static u_char *
arena_string_write(u_char *p, ngx_str_t *text)
{
    *p++ = '"';
    p = (u_char *) ngx_escape_json(p, text->data, text->len);
    *p++ = '"';
    return p;
}

size_t
arena_item_bytes_max(arena_item_t *item)
{
    size_t      bytes;
    ngx_str_t  *tags;
    ngx_uint_t  at;

    bytes = sizeof("{\"id\":,\"name\":,\"category\":,\"price\":,\"quantity\":,\"active\":false,\"tags\":[],"
                   "\"rating\":{\"score\":,\"count\":},\"total\":},")
            + 6 * NGX_INT_T_LEN + arena_string_bytes_max(&item->name) + arena_string_bytes_max(&item->category);
    tags = item->tags.elts;
    for (at = 0; at < item->tags.nelts; at++) {
        bytes += 1 + arena_string_bytes_max(&tags[at]);
    }
    return bytes;
}

u_char *
arena_item_write(u_char *p, arena_item_t *item, ngx_int_t factor)
{
    ngx_str_t   *tags;
    ngx_uint_t   at;

    p = ngx_sprintf(p, "{\"id\":%i,\"name\":", item->id);
    p = arena_string_write(p, &item->name);
    p = ngx_cpymem(p, ",\"category\":", sizeof(",\"category\":") - 1);
    p = arena_string_write(p, &item->category);
    p = ngx_sprintf(p, ",\"price\":%i,\"quantity\":%i,\"active\":%s,\"tags\":[", item->price, item->quantity,
                    item->active ? "true" : "false");
    tags = item->tags.elts;
    for (at = 0; at < item->tags.nelts; at++) {
        if (at > 0) {
            *p++ = ',';
        }
        p = arena_string_write(p, &tags[at]);
    }
    return ngx_sprintf(p, "],\"rating\":{\"score\":%i,\"count\":%i},\"total\":%i}", item->score, item->count,
                       item->price * item->quantity * factor);
}
