// Plain text: the whole file is one document, byte for byte (a byte order mark is dropped).
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/strings.h"
#include "data/fields.h"
#include "hone/registry.h"
#include "io/lines.h"

namespace hone::sources {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::uint32_t>::max();  // offsets in an Encoding have 32 bits

class Text final : public Source {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  Text(const Config&, const SourceFile& file) : path_(file.path), waiting_(file.waiting) {
    if (!file.columns.empty())
      throw Error(ErrorKind::config, fmt::format("{}: columns: a text file has no fields", path_));
    if (file.teacher_log_probs)
      throw Error(ErrorKind::data, fmt::format("{}: a text file has no log-probabilities; expected .jsonl or .parquet "
                                               "with logprobs", path_));
    if (file.records != RecordKind::language)
      throw Error(ErrorKind::data,
                  fmt::format("{}: a text file has no {}; expected .jsonl, .csv, .tsv or .parquet with {}", path_,
                              has(file.records), data::needed_fields(file.records)));
  }

  bool next(Record& record) override {
    if (done_) return false;
    done_ = true;
    std::string text = io::ByteReader(path_, waiting_).read_all(kMostBytes);
    if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
    check(text);
    if (trim(text).empty()) return false;
    record = Record();
    record.content = TextRecord{std::move(text)};
    record.line = 1;
    return true;
  }

 private:
  static const char* has(RecordKind records) {
    return records == RecordKind::labelled ? "labels"
           : records == RecordKind::asked  ? "prompts"
           : records == RecordKind::judged ? "judgements"
           : records == RecordKind::choice ? "choices"
           : records == RecordKind::embedding ? "pairs of texts"
           : records == RecordKind::ranked    ? "queries with texts"
           : records == RecordKind::tagged    ? "labels of words"
           : records == RecordKind::steps     ? "labels of steps"
           : records == RecordKind::question  ? "questions"
           : records == RecordKind::seq2seq   ? "sources and targets"
                                           : "preferences";
  }
  void check(const std::string& text) const {
    const std::optional<std::size_t> bad = first_bad_utf8(text);
    const std::size_t zero = text.find('\0');
    if (!bad && zero == std::string::npos) return;
    const std::size_t at = bad ? *bad : zero;
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    throw Error(ErrorKind::data, fmt::format("{}:{}: {} at byte {}", path_, line,
                                             bad ? "invalid UTF-8" : "a zero byte, so not a text file", at));
  }

  std::string path_;
  std::function<void()> waiting_;
  bool done_ = false;
};

}  // namespace

void register_text(Registries& hone) { hone.sources.add<Text>("text", "Plain text: the whole file is one document."); }

}  // namespace hone::sources
