/* mod_maitred: directives, the listener, and where the module hooks into Apache. See README.md. */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "apr_optional.h"
#include "apr_strings.h"
#include "ap_listen.h"
#include "ap_mpm.h"
#include "http_request.h"
#include "http_ssl.h"

#include "maitred.h"

APR_DECLARE_OPTIONAL_FN(void, ap_logio_add_bytes_out, (conn_rec *c, apr_off_t bytes));
APR_DECLARE_OPTIONAL_FN(int, ssl_engine_disable, (conn_rec *c));

#define MODE_DEFAULT 0660
/* Not http, so that Apache prefers another listener to wake its workers; also how this module knows its own. */
#define PROTOCOL "maitred"
/* Of the directive AuthType. */
#define AUTH_TYPE "Maitred"
/* The socket is bound under another name first, which is longer. */
#define PATH_BYTES_MAX (sizeof(((struct sockaddr_un *)0)->sun_path) - 16)

typedef struct {
    const char *path;
    mode_t mode;
} listener_t;

typedef struct {
    int sendfile; /* -1: not said */
} dir_config_t;

static apr_array_header_t *listeners; /* of the configuration that is being read or holds */
static ap_listen_rec *kept_listeners; /* open sockets of the configuration before it */
static pid_t opened_by;
static APR_OPTIONAL_FN_TYPE(ap_logio_add_bytes_out) *add_bytes_out;
static APR_OPTIONAL_FN_TYPE(ssl_engine_disable) *disable_ssl;

/* ---- configuration ---- */

static const char *set_listen(cmd_parms *cmd, void *config, const char *address, const char *option)
{
    const char *wrong = ap_check_cmd_context(cmd, GLOBAL_ONLY);
    const char *path = NULL;
    listener_t *listener;
    char *end = "x";
    long mode = MODE_DEFAULT;

    (void)config;
    if (wrong != NULL) {
        return wrong;
    }
    if (strncmp(address, "unix:", 5) == 0 && address[5] != 0) {
        path = ap_server_root_relative(cmd->pool, address + 5);
    }
    if (path == NULL) {
        return "MaitredListen: the address has to be unix:/path";
    }
    if (strlen(path) > PATH_BYTES_MAX) {
        return apr_psprintf(cmd->pool, "MaitredListen: the path is longer than %d bytes", (int)PATH_BYTES_MAX);
    }
    if (option != NULL) {
        if (strncmp(option, "mode=", 5) == 0 && option[5] != 0) {
            mode = strtol(option + 5, &end, 8);
        }
        if (*end != 0 || mode < 0 || mode > 0777) {
            return "MaitredListen: what may follow the address is mode=0660, in octal";
        }
    }
    listener = apr_array_push(listeners);
    listener->path = path;
    listener->mode = (mode_t)mode;
    return NULL;
}

static const char *set_sendfile(cmd_parms *cmd, void *config, int on)
{
    (void)cmd;
    ((dir_config_t *)config)->sendfile = on;
    return NULL;
}

static void *create_dir_config(apr_pool_t *pool, char *where)
{
    dir_config_t *config = apr_palloc(pool, sizeof(*config));
    (void)where;
    config->sendfile = -1;
    return config;
}

static void *merge_dir_config(apr_pool_t *pool, void *base, void *add)
{
    dir_config_t *config = apr_pmemdup(pool, base, sizeof(*config));
    if (((dir_config_t *)add)->sendfile >= 0) {
        config->sendfile = ((dir_config_t *)add)->sendfile;
    }
    return config;
}

static const command_rec COMMANDS[] = {
    AP_INIT_TAKE12("MaitredListen", set_listen, NULL, RSRC_CONF,
                   "unix:/path of the socket that Maitred connects to, and optionally mode=0660"),
    AP_INIT_FLAG("MaitredSendfile", set_sendfile, NULL, ACCESS_CONF | RSRC_CONF,
                 "whether the response field X-Sendfile may name a file below the pool's sendfile_root (default: on, but for "
                 "responses of mod_proxy)"),
    {NULL, {NULL}, NULL, 0, RAW_ARGS, NULL}};

int maitred_sendfile_allowed(const request_rec *r)
{
    const dir_config_t *config = ap_get_module_config(r->per_dir_config, &maitred_module);
    /* What mod_proxy passes on is not trusted. */
    return config->sendfile < 0 ? r->proxyreq == PROXYREQ_NONE : config->sendfile;
}

/* ---- the listener ---- */

static apr_status_t bind_socket(const listener_t *listener, apr_socket_t *socket, apr_pool_t *pool)
{
    const char *temporary = apr_psprintf(pool, "%s.%d", listener->path, (int)getpid());
    apr_sockaddr_t *address;
    mode_t before;
    apr_status_t status = apr_sockaddr_info_get(&address, temporary, APR_UNIX, 0, 0, pool);

    if (status != APR_SUCCESS) {
        return status;
    }
    unlink(temporary);
    before = umask(0777 & ~listener->mode);
    status = apr_socket_bind(socket, address);
    umask(before);
    if (status == APR_SUCCESS) {
        status = apr_socket_listen(socket, SOMAXCONN);
    }
    /* In one step, so that Maitred finds a socket at every moment, also during a restart. */
    if (status == APR_SUCCESS && rename(temporary, listener->path) != 0) {
        status = errno;
    }
    if (status != APR_SUCCESS) {
        unlink(temporary);
    }
    return status;
}

static const char *path_of(const ap_listen_rec *record)
{
    return record->bind_addr->sa.unx.sun_path;
}

/* Takes this module's records out of a list: those of `path`, or all if it is NULL. */
static ap_listen_rec *take_records(ap_listen_rec **list, const char *path)
{
    ap_listen_rec *taken = NULL;
    while (*list != NULL) {
        ap_listen_rec *record = *list;
        int ours = record->protocol != NULL && strcmp(record->protocol, PROTOCOL) == 0;
        if (ours && (path == NULL || strcmp(path_of(record), path) == 0)) {
            *list = record->next;
            record->next = taken;
            taken = record;
        }
        else {
            list = &record->next;
        }
    }
    return taken;
}

/* A new socket. Everything is in a pool that lives longer than one reading of the configuration, as Apache's listeners are. */
static apr_status_t make_record(const listener_t *listener, apr_pool_t *pool, ap_listen_rec **made)
{
    ap_listen_rec *record = apr_pcalloc(pool, sizeof(*record));
    apr_status_t status = apr_socket_create(&record->sd, APR_UNIX, SOCK_STREAM, 0, pool);

    if (status == APR_SUCCESS) {
        status = apr_sockaddr_info_get(&record->bind_addr, listener->path, APR_UNIX, 0, 0, pool);
    }
    if (status == APR_SUCCESS) {
        status = bind_socket(listener, record->sd, pool);
    }
    record->protocol = apr_pstrdup(pool, PROTOCOL); /* this module's own memory goes when it is loaded again */
    record->active = 1;
    *made = record;
    return status;
}

static apr_status_t open_listener(const listener_t *listener, apr_pool_t *pool)
{
    ap_listen_rec *record = take_records(&kept_listeners, listener->path), **place = &ap_listeners;

    if (record == NULL || chmod(listener->path, listener->mode) != 0) {
        apr_status_t status = make_record(listener, pool, &record);
        if (status != APR_SUCCESS) {
            return status;
        }
    }
    while (*place != NULL) {
        place = &(*place)->next;
    }
    *place = record;
    return APR_SUCCESS;
}

static apr_status_t remove_sockets(void *data)
{
    (void)data;
    if (ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_EXITING && getpid() == opened_by) {
        for (int n = 0; n < listeners->nelts; n++) {
            unlink(APR_ARRAY_IDX(listeners, n, listener_t).path);
        }
    }
    return APR_SUCCESS;
}

static int pre_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp)
{
    (void)plog, (void)ptemp;
    listeners = apr_array_make(pconf, 1, sizeof(listener_t));
    /* The sockets of the configuration that ends, before the MPM puts them where Apache closes them: a channel that has connected
     * meanwhile stays connected. */
    kept_listeners = take_records(&ap_listeners, NULL);
    return OK;
}

/* Before the MPM's hook, which takes whatever is in ap_listeners then. Not where the directive is read: `apachectl graceful`
 * reads the configuration in a process of its own. */
static int open_listeners(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    (void)plog, (void)ptemp;
    for (int n = 0; n < listeners->nelts; n++) {
        const listener_t *listener = &APR_ARRAY_IDX(listeners, n, listener_t);
        apr_status_t status = open_listener(listener, s->process->pool);
        if (status != APR_SUCCESS) {
            ap_log_error(APLOG_MARK, APLOG_STARTUP | APLOG_CRIT, status, NULL, "maitred: cannot listen on unix:%s",
                         listener->path);
            return HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    for (ap_listen_rec *record = kept_listeners; record != NULL; record = record->next) {
        unlink(path_of(record)); /* no longer in the configuration */
        apr_socket_close(record->sd);
    }
    kept_listeners = NULL;
    opened_by = getpid();
    apr_pool_cleanup_register(pconf, NULL, remove_sockets, apr_pool_cleanup_null);
    return OK;
}

static int post_config(apr_pool_t *pconf, apr_pool_t *plog, apr_pool_t *ptemp, server_rec *s)
{
    (void)pconf, (void)plog, (void)ptemp;
    add_bytes_out = APR_RETRIEVE_OPTIONAL_FN(ap_logio_add_bytes_out);
    disable_ssl = APR_RETRIEVE_OPTIONAL_FN(ssl_engine_disable);
    if (listeners->nelts > 0 && ap_num_listen_buckets > 1) {
        ap_log_error(APLOG_MARK, APLOG_STARTUP | APLOG_CRIT, 0, s,
                     "maitred: MaitredListen does not go together with ListenCoresBucketsRatio");
        return HTTP_INTERNAL_SERVER_ERROR;
    }
    return OK;
}

/* A channel keeps one descriptor for each connection. */
static void child_init(apr_pool_t *pchild, server_rec *s)
{
    struct rlimit limit;
    (void)pchild, (void)s;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* ---- connections and requests ---- */

maitred_conn_t *maitred_conn(const conn_rec *c)
{
    return ap_get_module_config(c->conn_config, &maitred_module);
}

void maitred_count_bytes_out(conn_rec *c, apr_off_t bytes)
{
    if (add_bytes_out != NULL) {
        add_bytes_out(c, bytes);
    }
}

static int is_channel(const conn_rec *c)
{
    return c->master == NULL && c->local_addr->family == APR_UNIX && listeners->nelts > 0;
}

static int pre_connection(conn_rec *c, void *csd)
{
    (void)csd;
    if (is_channel(c) && disable_ssl != NULL) {
        disable_ssl(c);
    }
    return OK;
}

static int process_connection(conn_rec *c)
{
    return is_channel(c) ? channel_serve(c) : DECLINED;
}

static int is_https(const conn_rec *c)
{
    const maitred_conn_t *mc = maitred_conn(c);
    return mc != NULL && mc->request->https;
}

static const char *scheme(const request_rec *r)
{
    return is_https(r->connection) ? "https" : NULL;
}

static apr_port_t default_port(const request_rec *r)
{
    return is_https(r->connection) ? DEFAULT_HTTPS_PORT : 0;
}

static int conn_is_ssl(conn_rec *c)
{
    return is_https(c) ? OK : DECLINED;
}

static int set_variables(request_rec *r)
{
    if (is_https(r->connection)) {
        apr_table_setn(r->subprocess_env, "HTTPS", "on");
    }
    return DECLINED;
}

/* The user whom Maitred has found out; 0 if there is none. */
static int set_user(request_rec *r)
{
    const maitred_conn_t *mc = maitred_conn(r->connection);
    if (mc == NULL || mc->request->user == NULL) {
        return 0;
    }
    r->user = apr_pstrdup(r->pool, mc->request->user);
    r->ap_auth_type = apr_pstrdup(r->pool, mc->request->auth_type);
    return 1;
}

/* Behind what Apache asks for by itself: a directory that has passwords of its own asks for these, and `Require valid-user` there
 * means its users and not Maitred's. */
static int fixup_user(request_rec *r)
{
    if (r->user == NULL) {
        set_user(r);
    }
    return DECLINED;
}

/* `AuthType Maitred`: with it, `Require` means Maitred's users. */
static int check_user(request_rec *r)
{
    const char *type = ap_auth_type(r);
    if (type == NULL || ap_cstr_casecmp(type, AUTH_TYPE) != 0) {
        return DECLINED;
    }
    if (set_user(r)) {
        return OK;
    }
    ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "maitred: AuthType Maitred, and Maitred has not found out who the user is: its site "
                                               "or route needs basic_auth, jwt or forward_auth");
    return HTTP_FORBIDDEN; /* there is nothing that the client could answer a 401 with */
}

static void register_hooks(apr_pool_t *pool)
{
    static const char *const MPMS[] = {"prefork.c", "worker.c", "event.c", NULL};
    static const char *const SSL[] = {"mod_ssl.c", NULL};
    (void)pool;
    ap_hook_pre_config(pre_config, NULL, MPMS, APR_HOOK_REALLY_FIRST);
    ap_hook_open_logs(open_listeners, NULL, MPMS, APR_HOOK_REALLY_FIRST);
    ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_child_init(child_init, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_pre_connection(pre_connection, NULL, SSL, APR_HOOK_REALLY_FIRST);
    ap_hook_process_connection(process_connection, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_http_scheme(scheme, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_default_port(default_port, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_ssl_conn_is_ssl(conn_is_ssl, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_post_read_request(set_variables, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_check_authn(check_user, NULL, NULL, APR_HOOK_MIDDLE, AP_AUTH_INTERNAL_PER_CONF);
    ap_hook_fixups(fixup_user, NULL, NULL, APR_HOOK_REALLY_FIRST);
    filters_register();
    request_trailers_register();
}

AP_DECLARE_MODULE(maitred) = {
    STANDARD20_MODULE_STUFF, create_dir_config, merge_dir_config, NULL, NULL, COMMANDS, register_hooks, 0};
