/* A toy accelerator: an array of 8 x 8 multiply-adders, and a memory of its own for weights. */
#ifndef TOY_ACCELERATOR_H
#define TOY_ACCELERATOR_H

#include <stdint.h>

enum { TOY_RELU = 1 };

/* Copy weights to the device; a handle, or -1 where its memory of 16 MiB is full. */
int32_t toy_upload(const float *data, int64_t count);

/* y[m][n] = x[m][k] * w[n][k] + bias[n]; bias is a handle or -1. 0, or an error code. */
int32_t toy_dense(float *y, const float *x, int32_t w, int32_t bias, int32_t m, int32_t n, int32_t k, int32_t flags);

/* A convolution of an NCHW image by an OIHW kernel. */
struct toy_conv {
  int32_t batch, channels, height, width;       /* of the image */
  int32_t outputs, kernel_height, kernel_width; /* of the kernel */
  int32_t out_height, out_width;
  int32_t stride_y, stride_x, top, left;
};
int32_t toy_conv2d(float *y, const float *x, int32_t w, int32_t bias, const struct toy_conv *shape, int32_t flags);

/* The cycles that the device has run. */
int64_t toy_cycles(void);

#endif
