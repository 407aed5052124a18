/* The response field `X-Sendfile: /path` names the body, where Maitred has named a root (../PROTOCOL.md, section 5). */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apr_strings.h"

#include "maitred.h"

APLOG_USE_MODULE(maitred);

/* What the kernel calls the file behind a descriptor, whose `/proc` name is `name`; whether it lies below `root`. */
static int is_below(const char *root, const char *name)
{
    char real_root[PATH_MAX], place[PATH_MAX];
    ssize_t bytes = readlink(name, place, sizeof(place) - 1);
    size_t root_bytes;

    if (bytes < 0 || realpath(root, real_root) == NULL) {
        return 0;
    }
    place[bytes] = '\0';
    root_bytes = strlen(real_root);
    if (real_root[root_bytes - 1] == '/') {
        root_bytes--; /* the root of everything */
    }
    return strncmp(place, real_root, root_bytes) == 0 && place[root_bytes] == '/';
}

/* Opens a regular file that lies below `root` after all links in both were followed; why not, or NULL. Where it lies is asked for
 * the file that was found: links that change meanwhile lead nowhere else. */
static const char *open_below(request_rec *r, const char *root, const char *path, apr_file_t **file, struct stat *found)
{
    const char *why = NULL;
    char name[64];
    /* Finds what the path leads to, and does not open it: a named pipe would wait for a writer. */
    int place = *path == '/' ? open(path, O_PATH | O_CLOEXEC) : -1;

    if (place < 0) {
        return *path == '/' ? apr_pstrdup(r->pool, strerror(errno)) : "it is not absolute";
    }
    apr_snprintf(name, sizeof(name), "/proc/self/fd/%d", place);
    if (!is_below(root, name)) {
        why = "it is not below sendfile_root";
    }
    else if (fstat(place, found) != 0 || !S_ISREG(found->st_mode)) {
        why = "it is no regular file";
    }
    else if (apr_file_open(file, name, APR_FOPEN_READ | APR_FOPEN_BINARY, APR_FPROT_OS_DEFAULT, r->pool) != APR_SUCCESS) {
        why = "it cannot be opened";
    }
    close(place);
    return why;
}

apr_status_t sendfile_named(request_rec *r, apr_bucket_brigade *bb, const char *root, const char *path)
{
    struct stat found;
    apr_file_t *file;
    const char *why = open_below(r, root, path, &file, &found);

    apr_brigade_cleanup(bb);
    if (why != NULL) {
        ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "maitred: X-Sendfile: cannot send %s: %s", path, why);
        ap_die(HTTP_INTERNAL_SERVER_ERROR, r);
        return AP_FILTER_ERROR;
    }
    ap_set_content_length(r, found.st_size);
    apr_brigade_insert_file(bb, file, 0, found.st_size, r->pool);
    APR_BRIGADE_INSERT_TAIL(bb, apr_bucket_eos_create(bb->bucket_alloc));
    return APR_SUCCESS;
}
