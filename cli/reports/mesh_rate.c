/* mesh_rate.c - computes and prints the rates of a training step on many devices. */
#include "cli/reports/mesh.h"

#include <string.h>

#include "cli/messages/quantities.h"
#include "cli/messages/screen.h"
#include "estimator/model/model.h"

const char *mesh_rate_type(const mp_workload_options *o)
{
    return o->amp && strcmp(o->amp, "none") != 0 ? o->amp : o->dtype;
}

void mesh_rate_of_device(const mp_workload_options *o, const mp_device *device, mesh_rate *out)
{
    const bool is_fp32 = !strcmp(mesh_rate_type(o), "fp32");
    out->type = is_fp32 && o->tf32 ? "tf32" : mesh_rate_type(o);
    out->peak_flops = !strcmp(out->type, "bf16")   ? device->bf16_flops
                      : !strcmp(out->type, "fp16") ? device->fp16_flops
                      : !strcmp(out->type, "tf32") ? device->tf32_flops
                                                   : device->fp32_flops;
}

void mesh_rate_of_model(const mp_workload *s, mesh_rate *out)
{
    for (size_t k = 0; k < s->model->n_inputs; k++) {
        const mp_tensor *t = &s->model->tensors[s->model->inputs[k]];
        const bool are_ids = t->role == MP_ROLE_DATA && !t->is_target && mp_dtype_is_integer(t->dtype) && t->rank == 2;
        if (are_ids && mp_tensor_whole_dims(t)[1] > out->tokens) out->tokens = mp_tensor_whole_dims(t)[1];
    }
}

double mesh_rate_flops(const mp_graph *graph)
{
    double flops = 0;
    for (size_t v = 0; v < graph->n_nodes; v++)
        if (graph->nodes[v].phase != MP_PHASE_UPDATE) flops += graph->nodes[v].flops;
    return flops;
}

double mesh_rate_share(const mesh_rate *r, int64_t devices, int64_t samples, double seconds)
{
    return r->peak_flops > 0 ? r->flops * (double)samples / (seconds * (double)devices * r->peak_flops) : 0;
}

void mesh_rate_print(const mesh_rate *r, int64_t devices, int64_t samples, double seconds)
{
    const double each = (double)samples / seconds, share = mesh_rate_share(r, devices, samples, seconds);
    const char *what = r->tokens ? mp_text("%s tokens", count_text((int64_t)(each * (double)r->tokens + 0.5)))
                                 : mp_text(each < 10 ? "%.2f samples" : "%.0f samples", each);
    const char *part = share > 0 ? mp_text(", %.1f %% of the peak of %.4g TFLOP/s in %s (MFU, without recomputation)",
                                           100 * share, r->peak_flops / 1e12, r->type)
                                 : "";
    screen_text(2, "%s per second%s.", what, part);
}
