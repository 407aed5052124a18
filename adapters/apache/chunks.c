/* The chunks of a program that writes its own response head (nph-) and frames its own body (RFC 9112, section 7.1). Only what is
 * in them goes on: how a body is framed on its way to the client is Maitred's to decide. */
#include "maitred.h"

#define DIGITS_MAX 15

enum { SIZE, EXTENSION, CONTENT, CONTENT_END, TRAILER, TRAILER_LINE, OVER };

static int digit(char byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 32;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static void size_ends(chunks_t *chunks)
{
    chunks->state = chunks->left > 0 ? CONTENT : TRAILER;
    chunks->digits = 0;
}

static int in_size(chunks_t *chunks, char byte)
{
    int value = digit(byte);
    if (value >= 0) {
        chunks->left = chunks->left * 16 + value;
        return ++chunks->digits <= DIGITS_MAX;
    }
    if (chunks->digits == 0) {
        return 0;
    }
    if (byte == '\n') {
        size_ends(chunks);
        return 1;
    }
    chunks->state = EXTENSION;
    return byte == '\r' || byte == ';' || byte == ' ' || byte == '\t';
}

apr_size_t chunks_content(chunks_t *chunks, apr_size_t bytes)
{
    apr_size_t count;
    if (chunks->state != CONTENT) {
        return 0;
    }
    count = (apr_off_t)bytes < chunks->left ? bytes : (apr_size_t)chunks->left;
    chunks->left -= (apr_off_t)count;
    if (chunks->left == 0) {
        chunks->state = CONTENT_END;
    }
    return count;
}

int chunks_frame(chunks_t *chunks, char byte)
{
    switch (chunks->state) {
    case SIZE:
        return in_size(chunks, byte);
    case EXTENSION:
        if (byte == '\n') {
            size_ends(chunks);
        }
        return 1;
    case CONTENT_END:
        if (byte == '\n') {
            chunks->state = SIZE;
        }
        return byte == '\n' || byte == '\r';
    case TRAILER:
        chunks->state = byte == '\n' ? OVER : byte == '\r' ? TRAILER : TRAILER_LINE;
        return 1;
    case TRAILER_LINE:
        if (byte == '\n') {
            chunks->state = TRAILER;
        }
        return 1;
    default:
        return 1; /* behind the last one: no content */
    }
}

int chunks_over(const chunks_t *chunks)
{
    return chunks->state == OVER;
}
