// How long OpenMP's threads spin before they sleep, told to libgomp before it is loaded.
//
// libgomp spins 300,000 turns, milliseconds, at the end of each parallel region and before the next one. Where another
// process has the processor that a thread needs, the spinning ones keep it from the others and everything takes tens
// of times as long. It reads GOMP_SPINCOUNT once, in its constructor. The functions of .preinit_array run before all
// constructors, also libc's, which then takes the environment from where the kernel put it: setenv() is too early here,
// and the only room is in that array. So the variable borrows the place of another one, that no library reads while it
// is loaded, and gives it back before main: nothing of this is seen afterwards, by this program or its children.
#include <unistd.h>
#include <initializer_list>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace {

char variable[] = "GOMP_SPINCOUNT=0000000";
char* lender = nullptr;

bool is_named(const char* entry, const char* name) {
  const std::size_t length = std::strlen(name);
  return std::strncmp(entry, name, length) == 0 && entry[length] == '=';
}

// Turns of libgomp's loop that take about 1,600,000 cycles of the time stamp counter, 0.4 to 0.8 ms: a pause is 10
// cycles or 140. That covers what lies between two regions of a small model, and is short against a time slice.
std::uint32_t spin_count() {
#if defined(__x86_64__)
  constexpr std::uint64_t kCycles = 1'600'000, kTurns = 64;
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 4; ++i) {
    const std::uint64_t start = __rdtsc();
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) __builtin_ia32_pause();
    const std::uint64_t taken = __rdtsc() - start;
    if (taken < least) least = taken;
  }
  const std::uint64_t turns = kCycles * kTurns / (least + 1);
  return static_cast<std::uint32_t>(turns < 1000 ? 1000 : turns > 100'000 ? 100'000 : turns);
#else
  return 10'000;
#endif
}

void write_count(std::uint32_t count) {
  for (char* digit = variable + sizeof variable - 2; *digit != '='; --digit, count /= 10)
    *digit = static_cast<char>('0' + count % 10);
}

void borrow(int, char**, char** environment) {
  for (char** entry = environment; *entry; ++entry)
    if (is_named(*entry, "GOMP_SPINCOUNT") || is_named(*entry, "OMP_WAIT_POLICY")) return;  // the user has chosen
  for (const char* name :
       {"_", "OLDPWD", "SHLVL", "PWD", "HOSTNAME", "LOGNAME", "USER", "SHELL", "TERM", "HOME", "PATH"})
    for (char** entry = environment; *entry; ++entry)
      if (is_named(*entry, name)) {
        lender = *entry;
        *entry = variable;
        return write_count(spin_count());
      }
}

// The program's own constructors come after those of its libraries.
__attribute__((constructor)) void give_back() {
  for (char** entry = environ; entry && *entry; ++entry)
    if (*entry == variable) *entry = lender;
}

__attribute__((section(".preinit_array"), used)) void (*const before_all)(int, char**, char**) = borrow;

}  // namespace
