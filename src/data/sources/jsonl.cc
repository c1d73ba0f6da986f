// JSON Lines: one object (its fields make the record) or one string (its text) per line; blank lines are skipped.
#include <fmt/format.h>

#include "base/strings.h"
#include "data/fields.h"
#include "hone/registry.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::sources {
namespace {

class Jsonl final : public Source {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  Jsonl(const Config&, const SourceFile& file)
      : path_(file.path), fields_(file), lines_(file.path, io::kMaxLine, file.waiting) {}

  bool next(Record& record) override {
    std::string_view line;
    while (lines_.next(line)) {
      const auto text = trim(line);
      if (text.empty()) continue;
      if (text == "{") fail_over_lines();
      const io::JsonLimits limits{.bytes = io::kMaxLine, .keeps_integers = true};
      fields_.read(io::parse_ordered_json_line(line, path_, lines_.line(), limits), {path_, lines_.line()}, record);
      return true;
    }
    return false;
  }

  std::optional<SourcePlace> place() const override {
    if (!lines_.bytes().can_skip()) return std::nullopt;
    return SourcePlace{lines_.line(), lines_.offset()};
  }
  void seek(const SourcePlace& place) override { lines_.seek(place.line, place.offset); }

 private:
  // As programs write JSON for people to read, or a whole data set as one object.
  [[noreturn]] void fail_over_lines() const {
    throw Error(ErrorKind::data, fmt::format("{}:{}: an object that goes over several lines; expected one object on "
                                             "each line, or one array of them",
                                             path_, lines_.line()))
        .hint("jq -c . makes a line of each object, jq -c '.data[]' of each one in an object's list data");
  }

  std::string path_;
  data::FieldMap fields_;
  io::LineReader lines_;
};

}  // namespace

void register_jsonl(Registries& hone) {
  hone.sources.add<Jsonl>("jsonl", "JSON Lines: an object, or a string of text, per line.");
}

}  // namespace hone::sources
