// PCRE2 behind Regex: JIT where there is one, step and heap limits, never the C++ library's regex.
#include "text/regex/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include "base/strings.h"
#include "hone/error.h"

namespace hone::text {
namespace {

constexpr std::uint32_t kMatchLimit = 10'000'000, kHeapLimitKb = 256'000;

std::string message_of(int code) {
  PCRE2_UCHAR text[160];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct RegexScratch::State {
  pcre2_match_data* data = pcre2_match_data_create(2, nullptr);  // the match and its first group
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 * 1024, 8 << 20, nullptr);
  State() {
    if (!data || !context) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKb);
    if (stack) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~State() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    if (stack) pcre2_jit_stack_free(stack);
  }
};
RegexScratch::RegexScratch() = default;
RegexScratch::~RegexScratch() = default;
RegexScratch::RegexScratch(RegexScratch&&) noexcept = default;

struct Regex::State {
  pcre2_code* code = nullptr;
  std::string pattern;
  ~State() { pcre2_code_free(code); }
};
Regex::~Regex() = default;
Regex::Regex(Regex&&) noexcept = default;

Regex::Regex(std::string_view pattern, const std::string& what) : state_(std::make_unique<State>()) {
  state_->pattern = std::string(pattern);
  const std::string translated = translate_regex(pattern, what);
  const std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (!context) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  state_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                               PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &where, context.get());
  if (!state_->code)
    throw Error(ErrorKind::config, fmt::format("{}: cannot compile the regular expression {}: {}", what,
                                               hone::quoted(pattern), message_of(error)));
  pcre2_jit_compile(state_->code, PCRE2_JIT_COMPLETE);  // where there is no JIT, pcre2_match interprets
}

bool Regex::search(std::string_view text, std::size_t from, RegexScratch& scratch, std::size_t& begin,
                   std::size_t& end) const {
  if (!scratch.state_) scratch.state_ = std::make_unique<RegexScratch::State>();
  const RegexScratch::State& s = *scratch.state_;
  const auto match = [&](std::uint32_t options) {
    return pcre2_match(state_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       options | PCRE2_NO_UTF_CHECK, s.data, s.context);
  };
  int result = match(0);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = match(PCRE2_NO_JIT);
  if (result == PCRE2_ERROR_NOMATCH) return false;
  if (result < 0)
    throw Error(ErrorKind::data,
                fmt::format("text to tokenize: the tokenizer's regular expression {} gave up at byte {}: {}",
                            hone::quoted(state_->pattern), from, message_of(result)));
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(s.data);
  begin = found[0];
  end = std::max(found[0], found[1]);  // \K in a look-ahead may turn them around
  return true;
}

void Regex::narrow_to_group(const RegexScratch& scratch, std::size_t& begin, std::size_t& end) const {
  std::uint32_t groups = 0;
  pcre2_pattern_info(state_->code, PCRE2_INFO_CAPTURECOUNT, &groups);
  const PCRE2_SIZE* found = pcre2_get_ovector_pointer(scratch.state_->data) + 2;
  if (groups == 0 || found[0] == PCRE2_UNSET) return;
  begin = found[0];
  end = std::max(found[0], found[1]);
}

}  // namespace hone::text
