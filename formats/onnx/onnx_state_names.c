/* onnx_state_names.c - lists of names that exporters use, and functions to look up a name. */
#include "formats/onnx/onnx.h"

#include <stdio.h>
#include <string.h>

/* Endings of names in state dictionaries, and endings of names of look-up tables. */
static const char entries[] = "weight bias running_mean running_var num_batches_tracked in_proj_weight in_proj_bias gamma beta "
                              "inv_freq position_ids";
static const char tables[] = "mask causal_mask attn_mask cos sin cos_cached sin_cached freqs_cis inv_freq original_inv_freq "
                             "mean std pixel_mean pixel_std relative_coords_table embed_scale final_logits_bias";
/* Operators after which the exporter names its results; all results but the first have a number appended. Operators that
 * only rearrange a parameter are excluded: transpose, permute, t, embedding. */
static const char results[] = "val zeros zeros_like ones ones_like full full_like new_zeros new_ones new_full arange linspace "
                              "eye expand unsqueeze lift_fresh_copy scalar_tensor_default where tril triu _to_copy clone cat "
                              "stack view masked_fill add sub rsub mul div neg pow sin cos repeat index exp";
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.";

/* Returns the name without the prefix of a subgraph: "NAME" for "LOOP#/NAME". */
static const char *own_part(const char *name)
{
    const char *mark = strrchr(name, '#'), *slash = mark ? strchr(mark, '/') : NULL;
    return slash ? slash + 1 : name;
}

static const char *last_part(const char *name)
{
    const char *last = name;
    for (const char *c = name; *c; c++)
        if (*c == '.' || *c == '/') last = c + 1;
    return last;
}

static bool is_one_of(const char *text, size_t length, const char *list)
{
    for (size_t n; *list; list += n + (list[n] == ' ')) {
        n = strcspn(list, " ");
        if (n == length && !memcmp(text, list, n)) return true;
    }
    return false;
}

bool mp_onnx_names_entry(const char *name)
{
    const char *last = last_part(name);
    return is_one_of(last, strlen(last), entries);
}

/* True for a constant that torch.export has moved out of the code of a module, such as "block.lifted_tensor_0". */
static bool is_lifted(const char *last)
{
    static const char lifted[] = "lifted_tensor_";
    const size_t n = strlen(lifted);
    return !strncmp(last, lifted, n) && last[n] && strspn(last + n, "0123456789") == strlen(last + n);
}

bool mp_onnx_names_table(const char *name)
{
    const char *last = last_part(name);
    return is_one_of(last, strlen(last), tables) || is_lifted(last);
}

bool mp_onnx_names_statistic(const char *name)
{
    const char *last = last_part(name);
    return is_one_of(last, strlen(last), "running_mean running_var num_batches_tracked");
}

bool mp_onnx_names_state(const char *name)
{
    const char *last = last_part(name);
    name = own_part(name);
    return strchr(name, '.') && *last && strspn(name, letters) == strlen(name) && strncmp(last, "tmp", 3) &&
           !mp_onnx_names_table(name);
}

/* True if the name is a path in a state dictionary. Names that consist only of a number come from an exporter. */
static bool is_identifier(const char *name)
{
    return *name && (strchr(name, '.') || *name < '0' || *name > '9') && strspn(name, letters) == strlen(name);
}

bool mp_onnx_names_folded(const char *name, bool numbers)
{
    return !strncmp(name, "onnx::", 6) || (numbers && *name && !name[strspn(name, "0123456789")]);
}

bool mp_onnx_is_state_dictionary(const mp_model *model)
{
    bool entries_within = false;
    for (size_t k = 0; k < model->n_tensors; k++) {
        const mp_tensor *t = &model->tensors[k];
        if (t->role != MP_ROLE_CONSTANT || !mp_dtype_is_float(t->dtype)) continue;
        /* the older exporter renames only tensors that it has folded, so a generated name is no evidence about other tensors */
        if (mp_onnx_names_folded(t->name, false)) continue;
        if (mp_onnx_names_result(t->name) || !is_identifier(t->name)) return false;
        entries_within |= strchr(t->name, '.') && mp_onnx_names_entry(t->name);
    }
    return entries_within;
}

bool mp_onnx_names_result_of(const char *name, const char *operators)
{
    size_t length = strlen(name);
    while (length && name[length - 1] >= '0' && name[length - 1] <= '9') length--;
    if (length < strlen(name) && length && name[length - 1] == '_') length--;
    return is_one_of(name, length, operators);
}

bool mp_onnx_names_result(const char *name)
{
    return mp_onnx_names_result_of(own_part(name), results);
}

static bool has(const mp_model *model, const char *stem, size_t length, const char *entry)
{
    char name[512];
    int n = snprintf(name, sizeof name, "%.*s%s", (int)length, stem, entry);
    return n > 0 && (size_t)n < sizeof name && mp_model_find(model, name) >= 0;
}

bool mp_onnx_names_frozen_norm(const mp_model *model, const char *name)
{
    const char *last = last_part(name);
    size_t stem = (size_t)(last - name);
    return stem < 400 && is_one_of(last, strlen(last), "weight bias running_mean running_var") &&
           has(model, name, stem, "running_mean") && has(model, name, stem, "running_var");
}
