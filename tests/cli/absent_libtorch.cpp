// Built twice: as a library that is not installed where the program runs, and as a plugin that needs it.
#if defined(CHAOS_IS_LIBTORCH)
extern "C" int chaos_absent_symbol() {
    return 1;
}
#else
extern "C" int chaos_absent_symbol();
extern "C" int chaos_use_absent_symbol() {
    return chaos_absent_symbol();
}
#endif
