// Parquet: rows as objects; only the columns that make the record are read.
#include "io/parquet.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <set>

#include "data/fields.h"
#include "hone/registry.h"

namespace hone::sources {
namespace {

class Parquet final : public Source {
 public:
  struct Config {
    static constexpr auto fields() { return std::tuple{}; }
  };
  Parquet(const Config&, const SourceFile& file) : path_(file.path), fields_(file) {
    const std::vector<std::string> all = io::ParquetReader(path_).columns();
    rows_.emplace(path_, needed(fields_.form_of(all, {path_, 1}), all));
  }

  bool next(Record& record) override {
    nlohmann::ordered_json row;
    if (!rows_->next(row)) return false;
    fields_.read(row, {path_, rows_->row()}, record);
    return true;
  }

 private:
  // The top-level columns of a form; "a.b" lies in column a.
  static std::vector<std::string> needed(const data::Form& form, const std::vector<std::string>& all) {
    std::set<std::string> names;
    for (const std::string& name : form.fields()) {
      const bool whole = std::find(all.begin(), all.end(), name) != all.end();
      names.insert(whole ? name : name.substr(0, name.find('.')));
    }
    return {names.begin(), names.end()};
  }

  std::string path_;
  data::FieldMap fields_;
  std::optional<io::ParquetReader> rows_;
};

}  // namespace

void register_parquet(Registries& hone) { hone.sources.add<Parquet>("parquet", "Parquet, where the build has it."); }

}  // namespace hone::sources
