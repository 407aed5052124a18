/* What a client has sent behind the body of its request: `trailers_in` of modules. Apache reads trailers behind chunks only, and
 * keeps the length of other bodies from its programs: so these go past its own filter, which sees a body of a stated length. */
#include "maitred.h"

static ap_filter_rec_t *merge_handle;

/* Before anything is done about the request: the log has them whether or not the body is read. */
static int arrive(request_rec *r)
{
    const maitred_conn_t *mc = maitred_conn(r->connection);
    if (mc != NULL && mc->request->trailers_in != NULL) {
        r->trailers_in = apr_table_copy(r->pool, mc->request->trailers_in);
    }
    return DECLINED;
}

/* The body was read to its end: MergeTrailers, as Apache's filter does it behind chunks. What came in time stays the first. */
static apr_status_t merge(ap_filter_t *f, apr_bucket_brigade *bb, ap_input_mode_t mode, apr_read_type_e block, apr_off_t bytes)
{
    request_rec *r = f->r;
    maitred_conn_t *mc = maitred_conn(r->connection);
    apr_status_t status = ap_get_brigade(f->next, bb, mode, block, bytes);

    if (status == APR_SUCCESS && !mc->merged && !APR_BRIGADE_EMPTY(bb) && APR_BUCKET_IS_EOS(APR_BRIGADE_LAST(bb))) {
        mc->merged = 1;
        r->headers_in = apr_table_overlay(r->pool, r->headers_in, r->trailers_in);
    }
    return status;
}

/* For each request of a chain of internal redirects, which keep no filter of this kind. */
static void insert_merge(request_rec *r)
{
    const maitred_conn_t *mc = maitred_conn(r->connection);
    const core_server_config *core = ap_get_core_module_config(r->server->module_config);
    if (mc != NULL && mc->request->trailers_in != NULL && r->main == NULL
        && core->merge_trailers == AP_MERGE_TRAILERS_ENABLE) {
        ap_add_input_filter_handle(merge_handle, NULL, r, r->connection);
    }
}

void request_trailers_register(void)
{
    /* Next to Apache's own, on the side of the handler. */
    merge_handle = ap_register_input_filter("MAITRED_MERGE", merge, NULL, AP_FTYPE_PROTOCOL - 1);
    ap_hook_post_read_request(arrive, NULL, NULL, APR_HOOK_FIRST);
    ap_hook_insert_filter(insert_merge, NULL, NULL, APR_HOOK_LAST);
}
