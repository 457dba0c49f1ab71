/* Convolutions and dense layers by oneDNN 3, for the C code that onednn.py writes: made once, run many times. */
#ifndef LAYERS_H
#define LAYERS_H

#include <dnnl.h>
#include <stddef.h>
#include <stdint.h>

#if DNNL_VERSION_MAJOR < 3
#error "expected oneDNN 3"
#endif

struct layer {
  dnnl_engine_t engine;
  dnnl_primitive_t primitive;
  dnnl_memory_t weights, bias;
  const_dnnl_memory_desc_t source, target;
};

#define TRY(call)                                     \
  do {                                                \
    dnnl_status_t status_ = (call);                   \
    if (status_ != dnnl_success) return 1000 + (int)status_; \
  } while (0)

static inline int plain_desc(dnnl_memory_desc_t *desc, int rank, const int64_t *sizes) {
  static const dnnl_format_tag_t tags[] = {dnnl_format_tag_undef, dnnl_a, dnnl_ab, dnnl_abc, dnnl_abcd};
  TRY(dnnl_memory_desc_create_with_tag(desc, rank, sizes, dnnl_f32, tags[rank]));
  return 0;
}

/* A bias, and a relu behind it. */
static inline int epilogue(dnnl_primitive_attr_t *attr, int relu) {
  dnnl_post_ops_t ops;
  TRY(dnnl_primitive_attr_create(attr));
  TRY(dnnl_post_ops_create(&ops));
  if (relu) TRY(dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.f, 0.f));
  TRY(dnnl_primitive_attr_set_post_ops(*attr, ops));
  TRY(dnnl_post_ops_destroy(ops));
  return 0;
}

/* The primitive, and the weights in the layout that it prefers. */
static inline int finish(struct layer *l, dnnl_primitive_desc_t pd, dnnl_memory_desc_t plain, void *weights,
                         void *bias) {
  const_dnnl_memory_desc_t wanted = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  dnnl_memory_t given;
  dnnl_primitive_desc_t reorder_desc;
  dnnl_primitive_t reorder;
  dnnl_stream_t stream;
  TRY(dnnl_memory_create(&given, plain, l->engine, weights));
  TRY(dnnl_memory_create(&l->weights, wanted, l->engine, DNNL_MEMORY_ALLOCATE));
  TRY(dnnl_reorder_primitive_desc_create(&reorder_desc, plain, l->engine, wanted, l->engine, NULL));
  TRY(dnnl_primitive_create(&reorder, reorder_desc));
  TRY(dnnl_stream_create(&stream, l->engine, dnnl_stream_default_flags));
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, given}, {DNNL_ARG_TO, l->weights}};
  TRY(dnnl_primitive_execute(reorder, stream, 2, args));
  TRY(dnnl_stream_wait(stream));
  TRY(dnnl_stream_destroy(stream));
  TRY(dnnl_primitive_destroy(reorder));
  TRY(dnnl_primitive_desc_destroy(reorder_desc));
  TRY(dnnl_memory_destroy(given));
  if (bias)
    TRY(dnnl_memory_create(&l->bias, dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 1), l->engine, bias));
  TRY(dnnl_primitive_create(&l->primitive, pd));
  return 0;
}

/* sizes: image NCHW, kernel OIHW, result NCHW; steps: strides, dilations - 1, paddings top/left, bottom/right. */
static inline int make_conv(struct layer *l, const int64_t sizes[12], const int64_t steps[8], void *weights,
                            void *bias, int relu) {
  dnnl_memory_desc_t source, kernel, any, target, biases = NULL;
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  int status;
  TRY(dnnl_engine_create(&l->engine, dnnl_cpu, 0));
  if ((status = plain_desc(&source, 4, sizes)) || (status = plain_desc(&kernel, 4, sizes + 4)) ||
      (status = plain_desc(&target, 4, sizes + 8)) || (status = epilogue(&attr, relu)))
    return status;
  if (bias && (status = plain_desc(&biases, 1, sizes + 4))) return status;
  TRY(dnnl_memory_desc_create_with_tag(&any, 4, sizes + 4, dnnl_f32, dnnl_format_tag_any));
  TRY(dnnl_convolution_forward_primitive_desc_create(&pd, l->engine, dnnl_forward_inference, dnnl_convolution_auto,
                                                     source, any, biases, target, steps, steps + 2, steps + 4,
                                                     steps + 6, attr));
  l->source = source, l->target = target;
  return finish(l, pd, kernel, weights, bias);
}

static inline int make_dense(struct layer *l, const int64_t sizes[3], void *weights, void *bias, int relu) {
  const int64_t m = sizes[0], n = sizes[1], k = sizes[2], x[] = {m, k}, w[] = {n, k}, y[] = {m, n};
  dnnl_memory_desc_t source, kernel, any, target, biases = NULL;
  dnnl_primitive_attr_t attr;
  dnnl_primitive_desc_t pd;
  int status;
  TRY(dnnl_engine_create(&l->engine, dnnl_cpu, 0));
  if ((status = plain_desc(&source, 2, x)) || (status = plain_desc(&kernel, 2, w)) ||
      (status = plain_desc(&target, 2, y)) || (status = epilogue(&attr, relu)))
    return status;
  if (bias && (status = plain_desc(&biases, 1, w))) return status;
  TRY(dnnl_memory_desc_create_with_tag(&any, 2, w, dnnl_f32, dnnl_format_tag_any));
  TRY(dnnl_inner_product_forward_primitive_desc_create(&pd, l->engine, dnnl_forward_inference, source, any, biases,
                                                       target, attr));
  l->source = source, l->target = target;
  return finish(l, pd, kernel, weights, bias);
}

/* Several threads may run a layer at once: what a run changes is its own. */
static inline int run_layer(const struct layer *l, void *y, const void *x) {
  dnnl_memory_t source, target;
  dnnl_stream_t stream;
  TRY(dnnl_memory_create(&source, l->source, l->engine, (void *)x));
  TRY(dnnl_memory_create(&target, l->target, l->engine, y));
  TRY(dnnl_stream_create(&stream, l->engine, dnnl_stream_default_flags));
  dnnl_exec_arg_t args[] = {
      {DNNL_ARG_SRC, source}, {DNNL_ARG_DST, target}, {DNNL_ARG_WEIGHTS, l->weights}, {DNNL_ARG_BIAS, l->bias}};
  TRY(dnnl_primitive_execute(l->primitive, stream, l->bias ? 4 : 3, args));
  TRY(dnnl_stream_wait(stream));
  TRY(dnnl_stream_destroy(stream));
  TRY(dnnl_memory_destroy(source));
  TRY(dnnl_memory_destroy(target));
  return 0;
}

#endif
