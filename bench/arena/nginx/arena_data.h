/* The data set of `cargo xtask bench arena`, as nginx keeps it. */

#ifndef ARENA_DATA_H
#define ARENA_DATA_H

#include <ngx_config.h>
#include <ngx_core.h>

typedef struct {
    ngx_int_t    id;
    ngx_str_t    name;
    ngx_str_t    category;
    ngx_int_t    price;
    ngx_int_t    quantity;
    ngx_flag_t   active;
    ngx_array_t  tags;          /* of ngx_str_t */
    ngx_int_t    score;
    ngx_int_t    count;
} arena_item_t;

/* Reads a file into an array of arena_item_t; NULL, with a line in the log, if that is not possible. */
ngx_array_t *arena_data_read(ngx_pool_t *pool, ngx_log_t *log, ngx_str_t *path);

/* Bytes that the item takes at most as JSON. */
size_t arena_item_bytes_max(arena_item_t *item);

/* Writes the item with its total as JSON, and returns the end. */
u_char *arena_item_write(u_char *p, arena_item_t *item, ngx_int_t factor);

#endif
