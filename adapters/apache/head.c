/* The head of a response: Apache's own, but for the fields about the connection, which are Maitred's to decide
 * (../PROTOCOL.md, section 5, "Framing"). */
#include <string.h>

#include "apr_lib.h"
#include "apr_strings.h"

#include "maitred.h"

APLOG_USE_MODULE(maitred);

/* Apache puts the first of these into every head (see filters.c, `before_reading`), programs of their own the others. */
static const char *const DROPPED[] = {"connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", NULL};

static int named(const char *line, apr_size_t name_bytes, const char *name)
{
    return strlen(name) == name_bytes && strncasecmp(line, name, name_bytes) == 0;
}

static int dropped(const char *line, apr_size_t name_bytes)
{
    for (const char *const *name = DROPPED; *name != NULL; name++) {
        if (named(line, name_bytes, *name)) {
            return 1;
        }
    }
    return 0;
}

/* `Upgrade` in a 426 is the application's (RFC 9110, section 15.5.22). */
static int offers_upgrade(const maitred_conn_t *mc, const char *line, apr_size_t name_bytes)
{
    return mc->status == HTTP_UPGRADE_REQUIRED && named(line, name_bytes, "upgrade");
}

static int bodiless(const maitred_conn_t *mc)
{
    return (mc->request->flags & FLAG_HEAD) || mc->status == HTTP_NO_CONTENT || mc->status == HTTP_NOT_MODIFIED;
}

/* Whether chunks are all that was done to a body: nothing else can be undone here. */
static int is_chunked(const char *at, const char *end)
{
    while (at < end && apr_isspace(*at)) {
        at++;
    }
    while (end > at && apr_isspace(end[-1])) {
        end--;
    }
    return named(at, (apr_size_t)(end - at), "chunked");
}

/* Copies the fields that stay to `to`, which has room for all; NULL if the response cannot be framed. */
static char *copy_fields(maitred_conn_t *mc, char *to, const char *at, const char *end, int *upgrades)
{
    *upgrades = 0;
    while (at < end) {
        const char *line_end = memchr(at, '\n', (apr_size_t)(end - at));
        const char *next = line_end ? line_end + 1 : end;
        const char *colon = memchr(at, ':', (apr_size_t)(next - at));
        apr_size_t name_bytes = colon ? (apr_size_t)(colon - at) : 0;
        int offered = offers_upgrade(mc, at, name_bytes);
        int stays = colon != NULL && (offered || !dropped(at, name_bytes));

        if (stays && named(at, name_bytes, "transfer-encoding")) {
            /* A program that writes its own head (nph-) also frames its own body. */
            if (mc->chunked || !is_chunked(colon + 1, next)) {
                return NULL;
            }
            mc->chunked = 1;
            stays = 0;
        }
        if (stays && mc->unstated && !bodiless(mc) && named(at, name_bytes, "content-length")) {
            stays = 0;
        }
        if (stays && named(at, name_bytes, "content-length")) {
            char *digits_end;
            mc->left = (apr_off_t)apr_strtoi64(colon + 1, &digits_end, 10);
            if (mc->left < 0) {
                return NULL;
            }
            mc->framing = FRAMING_LENGTH;
            stays = mc->status != HTTP_NO_CONTENT;
        }
        if (stays) {
            memcpy(to, at, (apr_size_t)(next - at));
            to += next - at;
        }
        *upgrades |= offered;
        at = next;
    }
    /* With both, it is not known where the body ends (RFC 9112, section 6.3). */
    return mc->chunked && mc->framing == FRAMING_LENGTH ? NULL : to;
}

/* An informational response, such as 103, for clients that may have it. Others get the next head. */
static void interim(maitred_conn_t *mc, int status, const char *head, const char *fields, const char *end)
{
    char *copy, *to;
    if (!mc->request->early_hints || status == HTTP_CONTINUE || status == HTTP_SWITCHING_PROTOCOLS
        || end - head > INTERIM_BYTES_MAX - 2 || mc->interim_count == INTERIM_MAX) {
        ap_log_cerror(APLOG_MARK, APLOG_DEBUG, 0, mc->c, "maitred: a response with status %d is not sent", status);
        return;
    }
    to = copy = apr_palloc(mc->c->pool, (apr_size_t)(end - head) + 2);
    memcpy(to, head, (apr_size_t)(fields - head));
    copy[7] = '1';
    to += fields - head;
    while (fields < end) {
        const char *line_end = memchr(fields, '\n', (apr_size_t)(end - fields));
        const char *next = line_end ? line_end + 1 : end;
        const char *colon = memchr(fields, ':', (apr_size_t)(next - fields));
        apr_size_t name_bytes = colon ? (apr_size_t)(colon - fields) : 0;
        if (colon != NULL && !dropped(fields, name_bytes) && !named(fields, name_bytes, "transfer-encoding")
            && !named(fields, name_bytes, "content-length")) {
            memcpy(to, fields, (apr_size_t)(next - fields));
            to += next - fields;
        }
        fields = next;
    }
    memcpy(to, "\r\n", 2);
    mc->interim_count++;
    mc->interim_status = status;
    sink_write(&mc->sink, copy, (apr_size_t)(to + 2 - copy));
}

/* How the body ends. */
static framing_e framing_of(const maitred_conn_t *mc)
{
    if (bodiless(mc)) {
        return FRAMING_NONE;
    }
    if (mc->framing == FRAMING_LENGTH) {
        return FRAMING_LENGTH;
    }
    return mc->request->flags & FLAG_HTTP10 ? FRAMING_CLOSE : FRAMING_CHUNKED;
}

/* Copies the fields that announce trailers, which `copy_fields` has left out: it does not know the framing. */
static char *copy_announcements(char *to, const char *at, const char *end)
{
    while (at < end) {
        const char *line_end = memchr(at, '\n', (apr_size_t)(end - at));
        const char *next = line_end ? line_end + 1 : end;
        const char *colon = memchr(at, ':', (apr_size_t)(next - at));
        if (colon != NULL && named(at, (apr_size_t)(colon - at), "trailer")) {
            memcpy(to, at, (apr_size_t)(next - at));
            to += next - at;
        }
        at = next;
    }
    return to;
}

/* The field that says what becomes of the connection, and how the body ends. */
static char *add_framing(const maitred_conn_t *mc, char *to, int upgrades)
{
    unsigned flags = mc->request->flags;
    int keep = (flags & FLAG_KEEP) != 0;
    const char *connection = "";

    if (!keep || mc->framing == FRAMING_CLOSE) {
        connection = upgrades ? "Connection: close, upgrade\r\n" : "Connection: close\r\n";
    }
    else if (upgrades) {
        connection = "Connection: upgrade\r\n";
    }
    else if (flags & FLAG_HTTP10) {
        connection = "Connection: keep-alive\r\n";
    }
    to = apr_cpystrn(to, connection, 64);
    if (mc->framing == FRAMING_CHUNKED) {
        to = apr_cpystrn(to, "Transfer-Encoding: chunked\r\n", 64);
    }
    return apr_cpystrn(to, "\r\n", 64);
}

int head_finish(maitred_conn_t *mc, apr_size_t head_bytes)
{
    const char *head = mc->head, *fields = memchr(head, '\n', head_bytes);
    const char *end = head + head_bytes - 2; /* without the empty line */
    char *copy, *to;
    int upgrades;

    if (head_bytes < 16 || strncmp(head, "HTTP/1.", 7) != 0 || head[8] != ' ' || fields == NULL) {
        return 0;
    }
    mc->status = (int)apr_strtoi64(head + 9, NULL, 10);
    if (mc->status < 100 || mc->status > 999) {
        return 0;
    }
    if (mc->status < 200) {
        interim(mc, mc->status, head, fields + 1, end);
        mc->status = 0;
        return 1;
    }
    mc->framing = FRAMING_NONE;
    mc->chunked = 0;
    memset(&mc->chunks, 0, sizeof(mc->chunks));
    copy = apr_palloc(mc->c->pool, head_bytes + 256);
    memcpy(copy, head, (apr_size_t)(fields + 1 - head));
    copy[7] = '1';
    to = copy_fields(mc, copy + (fields + 1 - head), fields + 1, end, &upgrades);
    if (to == NULL) {
        mc->status = 0;
        return 0;
    }
    mc->framing = framing_of(mc);
    if (trailers_follow(mc)) {
        to = copy_announcements(to, fields + 1, end);
    }
    to = add_framing(mc, to, upgrades);
    sink_write(&mc->sink, copy, (apr_size_t)(to - copy));
    mc->complete = bodiless(mc);
    mc->in_body = 1;
    return 1;
}
