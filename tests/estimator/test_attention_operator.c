/* test_attention_operator.c - ONNX's Attention computes the result of its definition, written here as loops. Forms without a
 * gradient are refused. */
#include <math.h>

#include "estimator/simplify/infer.h"
#include "memplan/onnx.h"
#include "memplan/simplify.h"
#include "tests/cases/interpreter.h"
#include "tests/cases/onnx_builder.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, BOOL = 9, BATCH = 2, QUERIES = 3, KEYS = 4, DEPTH = 5, VALUE_DEPTH = 6 };

typedef struct attention_row {
    const char *name;
    int heads, key_heads;
    bool joined; /* three dimensions, with heads joined in the last one */
    bool causal;
    const char *mask; /* dimensions; NULL: no mask */
    bool choice;      /* the mask is boolean */
    double scale, cap;
    bool fuses; /* becomes one operator again after simplification */
} attention_row;

static const attention_row rows[] = {
    {.name = "plain", .heads = 2, .key_heads = 2, .fuses = true},
    {.name = "scaled", .heads = 2, .key_heads = 2, .scale = 0.3, .fuses = true},
    {.name = "heads side by side", .heads = 2, .key_heads = 2, .joined = true, .fuses = true},
    {.name = "causal", .heads = 2, .key_heads = 2, .causal = true, .fuses = true},
    {.name = "shared heads", .heads = 6, .key_heads = 2, .causal = true, .fuses = true},
    {.name = "shared heads side by side", .heads = 6, .key_heads = 3, .joined = true, .fuses = true},
    {.name = "one key head", .heads = 4, .key_heads = 1, .fuses = true},
    {.name = "added mask", .heads = 2, .key_heads = 2, .mask = "3,4", .fuses = true},
    {.name = "mask for each sample", .heads = 2, .key_heads = 2, .mask = "2,1,1,4", .fuses = true},
    {.name = "mask for each head", .heads = 2, .key_heads = 2, .mask = "2,3,4", .fuses = true},
    {.name = "added mask, causal", .heads = 2, .key_heads = 2, .causal = true, .mask = "3,4", .fuses = true},
    {.name = "choice", .heads = 2, .key_heads = 2, .mask = "2,1,3,4", .choice = true, .fuses = true},
    {.name = "choice, causal", .heads = 2, .key_heads = 2, .causal = true, .mask = "3,4", .choice = true, .fuses = true},
    {.name = "bounded scores", .heads = 2, .key_heads = 2, .cap = 0.7, .causal = true}};

static const uint8_t choices[] = {1, 0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1};

static void add_number(onnx_builder *b, Onnx__NodeProto *node, const char *name, double f)
{
    Onnx__AttributeProto *a = onnx_attribute(b, node, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);
    a->has_f = 1;
    a->f = (float)f;
}

static const char *dims_of(const attention_row *r, int heads, int n, int depth, char *text, size_t size)
{
    if (r->joined)
        snprintf(text, size, "%d,%d,%d", BATCH, n, heads * depth);
    else
        snprintf(text, size, "%d,%d,%d,%d", BATCH, heads, n, depth);
    return text;
}

static Onnx__NodeProto *start(onnx_builder *b, const attention_row *r, const char *operands, const char *results)
{
    char dims[40];
    onnx_start(b);
    b->model.opset_import[0]->version = 23;
    onnx_input(b, "q", FLOAT, dims_of(r, r->heads, QUERIES, DEPTH, dims, sizeof dims));
    onnx_input(b, "k", FLOAT, dims_of(r, r->key_heads, KEYS, DEPTH, dims, sizeof dims));
    onnx_input(b, "v", FLOAT, dims_of(r, r->key_heads, KEYS, VALUE_DEPTH, dims, sizeof dims));
    if (r->choice) /* drawn values are never 0, so boolean masks are set explicitly; the second row masks all keys */
        onnx_raw(onnx_initializer(b, "mask", BOOL, r->mask), choices,
                 strlen(r->mask) > 3 ? sizeof choices : sizeof choices / 2);
    else if (r->mask)
        onnx_input(b, "mask", FLOAT, r->mask);
    Onnx__NodeProto *node = onnx_node(b, "Attention", "attend", operands, results);
    if (r->causal) onnx_int(b, node, "is_causal", 1);
    if (r->joined) onnx_int(b, node, "q_num_heads", r->heads);
    if (r->joined) onnx_int(b, node, "kv_num_heads", r->key_heads);
    if (r->scale != 0) add_number(b, node, "scale", r->scale);
    if (r->cap != 0) add_number(b, node, "softcap", r->cap);
    onnx_node(b, "Tanh", "", "y", "z");
    onnx_output(b, "z", FLOAT, "");
    return node;
}

/* Returns the index of (batch, head, row, column) in a tensor of queries, keys or values. */
static int at(const attention_row *r, int heads, int n, int depth, int b, int h, int i, int c)
{
    return r->joined ? ((b * n + i) * heads + h) * depth + c : ((b * heads + h) * n + i) * depth + c;
}

/* Returns the index in the mask, whose dimensions are aligned at the last one. */
static int in_mask(const mp_tensor *mask, int b, int h, int i, int j)
{
    const int position[] = {b, h, i, j};
    int place = 0;
    for (int d = 0; d < mask->rank; d++)
        place = place * (int)mask->dims[d] + (mask->dims[d] == 1 ? 0 : position[4 - mask->rank + d]);
    return place;
}

static double *attend(const mp_model *model, const attention_row *r)
{
    double *q = interpret(model, mp_model_find(model, "q")), *k = interpret(model, mp_model_find(model, "k")),
           *v = interpret(model, mp_model_find(model, "v")),
           *z = calloc((size_t)(BATCH * r->heads * QUERIES * VALUE_DEPTH), sizeof *z);
    const mp_tensor *mask = r->mask ? onnx_find(model, "mask") : NULL;
    double *hides = mask ? interpret(model, mp_model_find(model, "mask")) : NULL;
    for (int b = 0; b < BATCH; b++)
        for (int h = 0; h < r->heads; h++)
            for (int i = 0; i < QUERIES; i++) {
                const int shared = h / (r->heads / r->key_heads);
                double p[KEYS], sum = 0;
                for (int j = 0; j < KEYS; j++) {
                    double s = 0;
                    for (int c = 0; c < DEPTH; c++)
                        s += q[at(r, r->heads, QUERIES, DEPTH, b, h, i, c)] *
                             k[at(r, r->key_heads, KEYS, DEPTH, b, shared, j, c)];
                    s *= r->scale != 0 ? (double)(float)r->scale : 1 / sqrt(DEPTH);
                    if (r->cap != 0) s = (double)(float)r->cap * tanh(s / (double)(float)r->cap);
                    const double m = hides ? hides[in_mask(mask, b, h, i, j)] : 0;
                    bool hidden = (r->causal && j > i) || (r->choice && m == 0);
                    p[j] = hidden ? 0 : exp(s + (r->choice ? 0 : m));
                    sum += p[j];
                }
                for (int c = 0; c < VALUE_DEPTH; c++) {
                    double y = 0;
                    for (int j = 0; j < KEYS; j++)
                        y += (sum == 0 ? 0 : p[j] / sum) * v[at(r, r->key_heads, KEYS, VALUE_DEPTH, b, shared, j, c)];
                    z[at(r, r->heads, QUERIES, VALUE_DEPTH, b, h, i, c)] = tanh(y);
                }
            }
    free(q), free(k), free(v), free(hides);
    return z;
}

TEST(attention_is_computed_as_defined)
{
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        onnx_builder b;
        mp_error err = {0};
        mp_attention_report report = {0};
        start(&b, &rows[n], rows[n].mask ? "q,k,v,mask" : "q,k,v", "y");
        mp_model *model = onnx_load(&b, &(mp_onnx_options){.data = (const char *[]){"q", "k", "v", "mask"},
                                                           .n_data = rows[n].mask && !rows[n].choice ? 4 : 3});
        assert_computes(model, attend(model, &rows[n]), rows[n].name);
        if (mp_model_simplify(model, MP_RULES_EXECUTOR, true, NULL, &err) != MP_OK ||
            mp_model_fuse_attention(model, MP_RULES_EXECUTOR, false, &report, &err) != MP_OK)
            fail_msg("%s: %s", rows[n].name, err.message);
        if (report.n != rows[n].fuses) fail_msg("%s: %d attentions are recognised", rows[n].name, report.n);
        assert_computes(model, attend(model, &rows[n]), rows[n].name);
        mp_model_free(model);
        onnx_end(&b);
    }
}

/* Without a cache, the key and value outputs are the keys and values of this call. */
TEST(keys_and_values_come_out_with_heads_in_front)
{
    const attention_row r = {.heads = 4, .key_heads = 2, .joined = true};
    onnx_builder b;
    start(&b, &r, "q,k,v", "y,keys,values");
    onnx_output(&b, "keys", FLOAT, "");
    mp_model *model = onnx_load(&b, &(mp_onnx_options){.data = (const char *[]){"q", "k", "v"}, .n_data = 3});
    const mp_tensor *keys = onnx_find(model, "keys");
    const int64_t wanted[] = {BATCH, 2, KEYS, DEPTH};
    assert_int_equal(keys->rank, 4);
    for (int d = 0; d < 4; d++) assert_int_equal(keys->dims[d], wanted[d]);
    mp_model_free(model);
    onnx_end(&b);
}

TEST(what_training_cannot_have_is_refused)
{
    static const struct {
        attention_row row;
        const char *operands, *results, *words;
        mp_status status;
    } refusals[] = {
        {{.heads = 2, .key_heads = 2}, "q,k,v,,k,v", "y", "attend,earlier calls", MP_UNSUPPORTED},
        {{.heads = 2, .key_heads = 2}, "q,k,v,,,,q", "y", "attend,earlier calls", MP_UNSUPPORTED},
        {{.heads = 2, .key_heads = 2}, "q,k,v", "y,,,scores", "attend,scores", MP_UNSUPPORTED},
        {{.heads = 2, .key_heads = 2, .scale = -1}, "q,k,v", "y", "attend,negative", MP_UNSUPPORTED},
        {{.heads = 2, .key_heads = 2, .mask = "3,2"}, "q,k,v,mask", "y", "attend,a part of the keys", MP_UNSUPPORTED},
        {{.heads = 3, .key_heads = 2}, "q,k,v", "y", "attend,shapes", MP_PARSE},
        {{.heads = 2, .key_heads = 2}, "q,k", "y", "attend,lacks", MP_PARSE}};
    for (size_t n = 0; n < sizeof refusals / sizeof *refusals; n++) {
        onnx_builder b;
        start(&b, &refusals[n].row, refusals[n].operands, refusals[n].results);
        onnx_refused(&b, &(mp_onnx_options){0}, refusals[n].status, refusals[n].words);
        onnx_end(&b);
    }
}
