/* onnx_text.c - parses statements of the grammar word by word. */
#include "tests/cases/onnx_text.h"
#include "tests/cases/test.h"

enum { FLOAT = 1, INT64 = 7, BOOL = 9, WORD = 256 };

typedef struct reader {
    onnx_builder *b;
    const char *at;
    char word[WORD];
} reader;

/* Reads the next word. At the end of a statement it returns false without consuming the separator. */
static bool next(reader *r)
{
    r->at += strspn(r->at, " \n");
    size_t n = strcspn(r->at, " \n;{}");
    assert_true(n < WORD);
    memcpy(r->word, r->at, n);
    r->word[n] = 0;
    r->at += n;
    return n > 0;
}

static void need(reader *r)
{
    if (!next(r)) fail_msg("a word is missing before: %.40s", r->at);
}

static char *kept(reader *r, const char *text)
{
    return mp_pool_text(r->b->pool, text, strlen(text));
}

static void add_tensor(reader *r, Onnx__GraphProto *g, int type, bool scalar, bool filled)
{
    char name[WORD];
    need(r);
    snprintf(name, sizeof name, "%s", r->word);
    need(r);
    Onnx__TensorProto *t = onnx_tensor(r->b, name, type, filled ? "" : r->word);
    if (filled) {
        int64_t *numbers = mp_pool_alloc(r->b->pool, WORD, sizeof *numbers);
        uint8_t *bytes = mp_pool_alloc(r->b->pool, WORD, 1);
        size_t n = 0;
        for (char *at = r->word; at && *at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
            numbers[n] = strtoll(at, NULL, 10);
            bytes[n] = (uint8_t)numbers[n];
            n++;
        }
        t->n_dims = scalar ? 0 : 1;
        t->dims[0] = (int64_t)n;
        onnx_raw(t, type == BOOL ? (void *)bytes : (void *)numbers, type == BOOL ? n : 8 * n);
    }
    onnx_push(r->b, &g->n_initializer, &g->initializer, t);
}

static Onnx__ValueInfoProto *untyped(reader *r)
{
    Onnx__ValueInfoProto *info = onnx_value_info(r->b, r->word, FLOAT, "");
    info->type->tensor_type->shape = NULL;
    return info;
}

static void add_attribute(reader *r, Onnx__NodeProto *node, char *equals)
{
    *equals = 0;
    if (equals[1] != '[') {
        onnx_int(r->b, node, r->word, strtoll(equals + 1, NULL, 10));
        return;
    }
    Onnx__AttributeProto *a = onnx_attribute(r->b, node, r->word, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);
    a->ints = mp_pool_alloc(r->b->pool, WORD, sizeof *a->ints);
    for (char *at = equals + 2; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (*at != ']') a->ints[a->n_ints++] = strtoll(at, NULL, 10);
}

static void read_graph(reader *r, Onnx__GraphProto *g);

static void add_subgraph(reader *r, Onnx__NodeProto *node)
{
    Onnx__AttributeProto *a = onnx_attribute(r->b, node, r->word, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH);
    a->g = mp_pool_alloc(r->b->pool, 1, sizeof *a->g);
    onnx__graph_proto__init(a->g);
    r->at++;
    read_graph(r, a->g);
    if (*r->at != '}') fail_msg("a brace is open: %.40s", r->at);
    r->at++;
}

static void add_node(reader *r, Onnx__GraphProto *g)
{
    Onnx__NodeProto *node = mp_pool_alloc(r->b->pool, 1, sizeof *node);
    bool after = false;
    onnx__node_proto__init(node);
    char *dot = strrchr(r->word, '.');
    node->op_type = kept(r, dot ? dot + 1 : r->word);
    if (dot) node->domain = mp_pool_text(r->b->pool, r->word, (size_t)(dot - r->word));
    while (next(r)) {
        char *equals = strchr(r->word, '=');
        r->at += strspn(r->at, " \n");
        if (!strcmp(r->word, "->"))
            after = true;
        else if (equals)
            add_attribute(r, node, equals);
        else if (r->word[0] == '@')
            node->name = kept(r, r->word + 1);
        else if (*r->at == '{')
            add_subgraph(r, node);
        else if (after)
            onnx_push(r->b, &node->n_output, &node->output, kept(r, strcmp(r->word, "-") ? r->word : ""));
        else
            onnx_push(r->b, &node->n_input, &node->input, kept(r, strcmp(r->word, "-") ? r->word : ""));
    }
    onnx_push(r->b, &g->n_node, &g->node, node);
}

static void add_input(reader *r, Onnx__GraphProto *g)
{
    char name[WORD];
    need(r);
    snprintf(name, sizeof name, "%s", r->word);
    need(r);
    int type = !strcmp(r->word, "float") ? FLOAT : !strcmp(r->word, "bool") ? BOOL : INT64;
    onnx_push(r->b, &g->n_input, &g->input, onnx_value_info(r->b, name, type, next(r) ? r->word : ""));
}

static void read_graph(reader *r, Onnx__GraphProto *g)
{
    while (next(r)) {
        if (!strcmp(r->word, "input"))
            add_input(r, g);
        else if (!strcmp(r->word, "weight"))
            add_tensor(r, g, FLOAT, false, false);
        else if (!strcmp(r->word, "int") || !strcmp(r->word, "ints"))
            add_tensor(r, g, INT64, !strcmp(r->word, "int"), true);
        else if (!strcmp(r->word, "bool"))
            add_tensor(r, g, BOOL, true, true);
        else if (!strcmp(r->word, "formal"))
            while (next(r)) onnx_push(r->b, &g->n_input, &g->input, untyped(r));
        else if (!strcmp(r->word, "out"))
            while (next(r)) onnx_push(r->b, &g->n_output, &g->output, untyped(r));
        else
            add_node(r, g);
        r->at += strspn(r->at, " \n");
        if (*r->at != ';') return;
        r->at++;
    }
}

void onnx_text(onnx_builder *b, const char *text)
{
    reader r = {.b = b, .at = text};
    read_graph(&r, &b->graph);
    if (*r.at) fail_msg("cannot be read: %.60s", r.at);
}

void onnx_text_start(onnx_builder *b, int version, const char *text)
{
    onnx_start(b);
    b->model.opset_import[0]->version = version;
    onnx_text(b, text);
}

mp_model *onnx_text_model(int version, const char *text)
{
    onnx_builder b;
    onnx_text_start(&b, version, text);
    mp_model *model = onnx_load(&b, NULL);
    onnx_end(&b);
    return model;
}

void onnx_text_refused(int version, const char *text, mp_status expected, const char *words)
{
    onnx_builder b;
    onnx_text_start(&b, version, text);
    onnx_refused(&b, NULL, expected, words);
    onnx_end(&b);
}
