// A JSON array of objects (their fields make the records) or of strings (their text), streamed element by element.
#include "data/fields.h"
#include "data/indexed_line.h"
#include "hone/registry.h"
#include "io/json_array.h"

namespace hone::sources {
namespace {

class JsonArray final : public Source {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  JsonArray(const Config&, const SourceFile& file)
      : path_(file.path), fields_(file), elements_(file.path, file.waiting) {}

  bool next(Record& record) override {
    nlohmann::ordered_json element;
    if (!elements_.next(element)) return false;
    const std::int64_t line = elements_.line();
    fields_.read(std::move(element),
                 {path_, elements_.shares_line() ? data::indexed_line(line, elements_.index()) : line}, record);
    return true;
  }

 private:
  std::string path_;
  data::FieldMap fields_;
  io::JsonArrayReader elements_;
};

}  // namespace

void register_json(Registries& hone) {
  hone.sources.add<JsonArray>("json", "A JSON array of objects, or of strings of text.");
}

}  // namespace hone::sources
