/* Fields behind the content of a response (../PROTOCOL.md, "Trailers"): what handlers put into `trailers_out`. Apache's own
 * filter of chunks, which is not used here, writes none. */
#include <string.h>

#include "apr_strings.h"

#include "maitred.h"

APLOG_USE_MODULE(maitred);

/* Those that mean something else, or nothing, there (RFC 9110, section 6.5.1): NOT_IN_TRAILERS of the crate maitred-handoff. */
static const char *const NOT_IN_TRAILERS[] = {
    "connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    "authentication-info", "authorization", "cookie", "forwarded", "proxy-authenticate", "proxy-authentication-info",
    "proxy-authorization", "set-cookie", "www-authenticate", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
    "cache-control", "expect", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since",
    "max-forwards", "pragma", "priority", "range",
    "age", "date", "expires", "location", "retry-after", "vary", "warning",
    "content-disposition", "content-encoding", "content-language", "content-location", "content-range", "content-type",
};

typedef struct {
    conn_rec *c;
    char *to;
    unsigned count;
    apr_size_t bytes; /* those that do not fit are counted, and not kept */
} section_t;

/* Why a field is not sent; NULL if it is. Nothing before this has looked at it: Apache checks the fields of a head only. */
static const char *fault_of(const char *name, const char *value)
{
    if (*name == '\0' || *ap_scan_http_token(name) != '\0') {
        return "its name is no token";
    }
    if (*ap_scan_http_field_content(value) != '\0') {
        return "a control character in its value";
    }
    for (unsigned n = 0; n < sizeof(NOT_IN_TRAILERS) / sizeof(NOT_IN_TRAILERS[0]); n++) {
        if (ap_cstr_casecmp(name, NOT_IN_TRAILERS[n]) == 0) {
            return "a field of this name does not stand behind content";
        }
    }
    return NULL;
}

static int add(void *data, const char *name, const char *value)
{
    section_t *section = data;
    const char *fault = fault_of(name, value);

    if (fault != NULL) {
        ap_log_cerror(APLOG_MARK, APLOG_DEBUG, 0, section->c, "maitred: the trailer %s is not sent: %s", name, fault);
        return 1;
    }
    section->count++;
    section->bytes += strlen(name) + strlen(value) + strlen(": \r\n");
    if (section->bytes <= TRAILER_BYTES_MAX) {
        section->to = stpcpy(stpcpy(stpcpy(stpcpy(section->to, name), ": "), value), "\r\n");
    }
    return 1;
}

int trailers_follow(const maitred_conn_t *mc)
{
    /* A program that writes chunks of its own (nph-) has its trailers in them, where chunks.c drops them. */
    return mc->request->trailers && mc->framing == FRAMING_CHUNKED && !mc->chunked;
}

void trailers_end(maitred_conn_t *mc, const apr_table_t *trailers)
{
    section_t section = {.c = mc->c};
    char *text;

    if (trailers == NULL || apr_is_empty_table(trailers) || !trailers_follow(mc)) {
        sink_write(&mc->sink, "0\r\n\r\n", 5);
        return;
    }
    text = apr_palloc(mc->c->pool, TRAILER_BYTES_MAX + sizeof("0\r\n\r\n"));
    section.to = stpcpy(text, "0\r\n");
    apr_table_do(add, &section, trailers, NULL);
    if (section.count > TRAILERS_MAX || section.bytes > TRAILER_BYTES_MAX) {
        ap_log_cerror(APLOG_MARK, APLOG_DEBUG, 0, mc->c, "maitred: %u trailers of %" APR_SIZE_T_FMT " bytes are too many: none "
                      "is sent", section.count, section.bytes);
        section.to = text + 3;
    }
    section.to = stpcpy(section.to, "\r\n");
    sink_write(&mc->sink, text, (apr_size_t)(section.to - text));
}
