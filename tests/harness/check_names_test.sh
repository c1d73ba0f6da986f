#!/usr/bin/env bash
# tools/check-names refuses what two files of a folder define for themselves under one name, a public type's name for
# one of a file's own, and nothing else.
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
failures=0

written() {
  printf 'namespace hone::io {\nnamespace {\n\n%s\n\n}  // namespace\n}  // namespace hone::io\n' "$1"
}

expect() {  # accepted|refused, what one file defines, what the other one; perhaps the other's folder and name
  rm -rf "${tree:?}"/*
  mkdir -p "$tree/src/io/inner" "$tree/src/text" "$tree/tests/io" "$tree/include" "$tree/${4:-src/io}"
  written "$2" >"$tree/src/io/a.cc"
  written "$3" >"$tree/${4:-src/io}/${5:-b.cc}"
  local got=accepted
  "$root/tools/check-names" "$tree" >"$tree/out" 2>&1 || got=refused
  if [ $got != "$1" ]; then
    printf '%s\nbeside\n%s\n%s, expected %s\n' "$2" "$3" $got "$1"
    cat "$tree/out"
    failures=$((failures + 1))
  fi
}

expect accepted 'constexpr int kA = 1;' 'constexpr int kB = kA;'
expect refused 'constexpr int kA = 1;' 'constexpr double kA = 2;'
expect refused 'constexpr int kA = 1;' 'constexpr double kB = 1, kC{2}, kA = 2;'
expect accepted 'constexpr int kA = 1;' 'constexpr double kB = std::max(1, kA), kC{kA};'
expect refused 'const std::map<int, std::string> kA{{1, "b"},
                                    {2, "c"}};' 'constexpr const char *kB = "a;b",
                     *kA = "c";'
expect refused 'struct A {
  int a = 1;
};' 'class A final : public B {};'
expect refused 'enum class A { b };' 'using A = std::vector<int>;'
expect accepted 'using A = std::vector<int>;' 'using A = std::vector<int>;'
expect refused 'using A = std::vector<int>;' 'using A = std::vector<double>;'
expect accepted 'class A;' 'class A;'
expect accepted 'struct A {
  static constexpr int kB = 1;
};' 'int b() {
  constexpr int kB = 2;
  return kB;
}'
expect refused 'int f(const A& a, int b = 3) {
  return b;
}' '[[noreturn]] void f(const A& other,
                    int c) {
  throw c;
}'
expect accepted 'int f(const A& a) { return 1; }' 'int f(const B& a) { return 1; }'
expect accepted 'int f(A a) { return 1; }' 'int f(A a, std::function<void(int, int)> b) { return 1; }'
expect refused 'bool operator==(const A& a, const A& b) { return true; }' 'bool operator==(const A& c, const A& d) {
  return false;
}'
expect refused 'template <class T>
void f(const T& a) {}' 'template <class T>
void f(const T& b) {}'
expect accepted 'template <class T>
void f(const T& a) {}' 'template <>
void f<int>(const int& a) {}'
expect accepted 'void A::f(int a) {}' 'void B::f(int a) {}'
expect refused 'TEST(A, b) {}' 'TEST(A, b) {
  f();
}'
expect accepted 'TEST(A, b) {}' 'TEST(A, c) {}'
expect accepted 'const char* text = R"(
constexpr int kA = 1;
)";' 'constexpr int kA = 1;'
expect accepted 'constexpr int kA = 1;  // kB = 2' 'constexpr int kB = 1;'
# What is public is seen in every folder.
expect refused 'struct A {};' 'class A {
 public:
  int b = 1;
};' include/hone a.h
expect refused 'using A = int;' 'enum class A { b };' include/hone a.h
expect accepted 'struct A {};' 'struct B {
  struct A {};
};
class A;
int A(int a);' include/hone a.h
expect accepted 'constexpr int kA = 1;' 'constexpr int kA = 2;' include/hone a.h
# Folders below one are compiled with it; others, and what is in another namespace, are not its neighbours.
expect refused 'constexpr int kA = 1;' 'constexpr int kA = 1;' src/io/inner
expect accepted 'constexpr int kA = 1;' 'constexpr int kA = 1;' src/text
expect accepted 'constexpr int kA = 1;' 'constexpr int kA = 1;' tests/io
expect accepted 'constexpr int kA = 1;' '}  // namespace
namespace inner {
namespace {
constexpr int kA = 1;
}  // namespace
}  // namespace inner
namespace {'
expect refused 'constexpr int kA = 1;' '}  // namespace
static int kA = 1;
namespace {'
expect accepted 'constexpr int kA = 1;' '}  // namespace
int kB = 1;
namespace {'
exit $((failures > 0))
