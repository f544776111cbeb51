#include "kprofd/buf.h"
#include <stdio.h>
struct json { struct kp_buf *b; };
#define json_begin(j,bb) ((j)->b=(bb))
#define json_object(j,k) (void)(j)
#define json_string(j,k,v) kp_buf_printf((j)->b,"%s=%s\n",k,v)
#define json_int(j,k,v) kp_buf_printf((j)->b,"%s=%lld\n",k,(long long)(v))
#define json_uint(j,k,v) kp_buf_printf((j)->b,"%s=%llu\n",k,(unsigned long long)(v))
#define json_end(j) (void)(j)
