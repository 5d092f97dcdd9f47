/* tests/load/b41_tls_module.c -- a library that takes some of the static thread-local block; see b41_late_dlopen.c. */
static __attribute__((tls_model("initial-exec"))) _Thread_local char taken[56];

__attribute__((visibility("default"))) void *thread_locals(void)
{
    return taken;
}
