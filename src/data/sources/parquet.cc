// Parquet: rows as objects; only the columns that make the record are read.
#include "io/parquet.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
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
    const io::ParquetReader whole(path_);
    const std::vector<std::string> all = whole.columns();
    for (const auto& [known, name] : fields_.columns())
      if (name != fields_.templates().made_field(known) && !data::can_have(all, name))
        throw Error(ErrorKind::data, fmt::format("{}: no column {} to read {} from; found {}", path_,
                                                 hone::quoted(name), known, list_names(all)));
    std::vector<std::string> with_made = all;
    for (const std::string& made : fields_.templates().made_fields()) with_made.push_back(made);
    const data::Form form = fields_.form_of(with_made, {path_, 1});
    texts_ = columns_of(form, all);
    pictures_ = form.images.substr(0, data::has(all, form.images) ? form.images.npos : form.images.find('.'));
    std::erase_if(texts_, [&](const std::string& name) { return !data::has(all, name); });  // those that are made
    for (const std::string& name : all)
      if (fields_.templates().reads(name) && !data::has(texts_, name)) texts_.push_back(name);
    const std::vector<std::string> read = with_judged(texts_, all);
    std::vector<std::string> others;
    std::copy_if(all.begin(), all.end(), std::back_inserter(others),
                 [&](const std::string& name) { return std::find(read.begin(), read.end(), name) == read.end(); });
    unread_ = fields_.unread(others, form, {path_, 1});
    rows_.emplace(path_, read);
    if (fields_.problem_type() == ProblemType::regression) return;
    for (auto& [column, names] : whole.class_names())
      if (column == form.label || column == form.tags) names_.emplace(column, std::move(names));
  }

  bool next(Record& record) override {
    nlohmann::ordered_json row;
    if (!rows_->next(row)) return false;
    for (const std::string& name : texts_)
      if (name != pictures_ && !is_text(row[name]))
        throw Error(ErrorKind::data, fmt::format("{}:{}: field {}: invalid UTF-8", path_, rows_->row(),
                                                 hone::quoted(name)));
    for (const auto& [column, names] : names_) give_names(row[column], names);
    fields_.read(std::move(row), {path_, rows_->row()}, record);
    for (std::string& name : std::exchange(unread_, {})) record.unread.push_back(std::move(name));
    return true;
  }

 private:
  // The top-level columns of a form: "a.b" lies in column a.
  static std::vector<std::string> columns_of(const data::Form& form, const std::vector<std::string>& all) {
    std::set<std::string> names;
    for (const std::string& name : form.fields()) {
      const bool whole = std::find(all.begin(), all.end(), name) != all.end();
      names.insert(whole ? name : name.substr(0, name.find('.')));
    }
    return {names.begin(), names.end()};
  }
  // And those that are refused unless they are empty.
  static std::vector<std::string> with_judged(const std::vector<std::string>& columns,
                                              const std::vector<std::string>& all) {
    std::set<std::string> names(columns.begin(), columns.end());
    std::copy_if(all.begin(), all.end(), std::inserter(names, names.end()), data::FieldMap::is_judged_by_value);
    return {names.begin(), names.end()};
  }
  // Whole numbers that count the names of their column; others (-1, -100: none) stay.
  static void give_names(nlohmann::ordered_json& value, const std::vector<std::string>& names) {
    if (value.is_array())
      for (nlohmann::ordered_json& one : value) give_names(one, names);
    if (!value.is_number_integer()) return;
    const auto number = value.get<std::int64_t>();
    if (number >= 0 && number < std::ssize(names)) value = names[static_cast<std::size_t>(number)];
  }
  // Columns of bytes are taken for text, and not every writer checks its text.
  static bool is_text(const nlohmann::ordered_json& value) {
    if (value.is_string()) return is_utf8(value.get_ref<const std::string&>());
    if (value.is_array()) return std::all_of(value.begin(), value.end(), is_text);
    if (!value.is_object()) return true;
    const auto items = value.items();
    return std::all_of(items.begin(), items.end(),
                       [](const auto& item) { return is_utf8(item.key()) && is_text(item.value()); });
  }

  std::string path_;
  data::FieldMap fields_;
  std::vector<std::string> texts_;  // columns that make the record
  std::string pictures_;            // the one of pictures, whose bytes are no text
  std::vector<std::string> unread_;
  std::map<std::string, std::vector<std::string>> names_;  // of the columns of labels that have some
  std::optional<io::ParquetReader> rows_;
};

}  // namespace

void register_parquet(Registries& hone) { hone.sources.add<Parquet>("parquet", "Parquet, where the build has it."); }

}  // namespace hone::sources
