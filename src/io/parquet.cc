// Parquet through Arrow; only this file sees its headers, and only where the build has it.
#include "io/parquet.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "hone/error.h"

#ifdef HONE_WITH_PARQUET

#include <arrow/api.h>
#include <arrow/io/api.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>

#include <algorithm>

#include "base/env.h"
#include "io/json.h"
#include "io/lines.h"

namespace hone::io {
namespace {

using json = nlohmann::ordered_json;

template <class ArrayType>
const ArrayType& as(const arrow::Array& array) {
  return static_cast<const ArrayType&>(array);
}

json value_at(const arrow::Array& array, std::int64_t row, int depth);

// A value of one of Parquet's or Arrow's types that are made of others. JSON in a text, which the data sets library
// makes of what rows have different types of, is the value it says.
json extension_at(const arrow::ExtensionArray& array, std::int64_t row, int depth) {
  json value = value_at(*array.storage(), row, depth + 1);
  const bool is_json = array.extension_type()->extension_name() == "arrow.json";
  if (!is_json || !value.is_string()) return value;
  const JsonLimits limits{.bytes = kMaxLine, .keeps_integers = true};
  return parse_ordered_json(value.get_ref<const std::string&>(), "a column of JSON", limits);
}

template <class ArrayType>
json text_at(const arrow::Array& array, std::int64_t row) {
  return std::string(as<ArrayType>(array).GetView(row));
}

template <class ArrayType>
json list_at(const arrow::Array& array, std::int64_t row, int depth) {
  const auto& lists = as<ArrayType>(array);
  const std::int64_t begin = lists.value_offset(row), end = begin + lists.value_length(row);
  json list = json::array();
  for (std::int64_t i = begin; i < end; ++i) list.push_back(value_at(*lists.values(), i, depth + 1));
  return list;
}

// A struct has the keys of all rows: what a row does not have is null in it, and not told from a null that was written.
json struct_at(const arrow::StructArray& array, std::int64_t row, int depth) {
  json object = json::object();
  for (int i = 0; i < array.num_fields(); ++i)
    if (json value = value_at(*array.field(i), row, depth + 1); !value.is_null())
      object[array.struct_type()->field(i)->name()] = std::move(value);
  return object;
}

// Keys that are no text as they are printed. What is null here was written so.
json map_at(const arrow::MapArray& array, std::int64_t row, int depth) {
  json object = json::object();
  for (std::int64_t i = array.value_offset(row); i < array.value_offset(row + 1); ++i) {
    const json key = value_at(*array.keys(), i, depth + 1);
    object[key.is_string() ? key.get<std::string>() : key.dump()] = value_at(*array.items(), i, depth + 1);
  }
  return object;
}

// Everything that is no number, text, bytes, list or struct (dates, decimals, ...) as Arrow prints it.
json printed(const arrow::Array& array, std::int64_t row) {
  if (arrow::is_nested(array.type_id()))
    throw Error(ErrorKind::data, "a value of the type " + array.type()->ToString() + ", which is not supported");
  const auto scalar = array.GetScalar(row);
  if (!scalar.ok()) throw Error(ErrorKind::data, scalar.status().message());
  return (*scalar)->ToString();
}

json value_at(const arrow::Array& array, std::int64_t row, int depth) {
  if (depth > 64) throw Error(ErrorKind::data, "values nested deeper than 64");
  if (array.IsNull(row)) return nullptr;
  using Type = arrow::Type;
  switch (array.type_id()) {
    case Type::BOOL:
      return as<arrow::BooleanArray>(array).Value(row);
    case Type::INT8:
      return as<arrow::Int8Array>(array).Value(row);
    case Type::INT16:
      return as<arrow::Int16Array>(array).Value(row);
    case Type::INT32:
      return as<arrow::Int32Array>(array).Value(row);
    case Type::INT64:
      return as<arrow::Int64Array>(array).Value(row);
    case Type::UINT8:
      return as<arrow::UInt8Array>(array).Value(row);
    case Type::UINT16:
      return as<arrow::UInt16Array>(array).Value(row);
    case Type::UINT32:
      return as<arrow::UInt32Array>(array).Value(row);
    case Type::UINT64:
      return as<arrow::UInt64Array>(array).Value(row);
    case Type::FLOAT:
      return as<arrow::FloatArray>(array).Value(row);
    case Type::DOUBLE:
      return as<arrow::DoubleArray>(array).Value(row);
    case Type::STRING:
      return text_at<arrow::StringArray>(array, row);
    case Type::LARGE_STRING:
      return text_at<arrow::LargeStringArray>(array, row);
    case Type::STRING_VIEW:
      return text_at<arrow::StringViewArray>(array, row);
    case Type::BINARY:
      return text_at<arrow::BinaryArray>(array, row);
    case Type::LARGE_BINARY:
      return text_at<arrow::LargeBinaryArray>(array, row);
    case Type::BINARY_VIEW:
      return text_at<arrow::BinaryViewArray>(array, row);
    case Type::FIXED_SIZE_BINARY:
      return text_at<arrow::FixedSizeBinaryArray>(array, row);
    case Type::LIST:
      return list_at<arrow::ListArray>(array, row, depth);
    case Type::LARGE_LIST:
      return list_at<arrow::LargeListArray>(array, row, depth);
    case Type::LIST_VIEW:
      return list_at<arrow::ListViewArray>(array, row, depth);
    case Type::LARGE_LIST_VIEW:
      return list_at<arrow::LargeListViewArray>(array, row, depth);
    case Type::FIXED_SIZE_LIST:
      return list_at<arrow::FixedSizeListArray>(array, row, depth);
    case Type::MAP:
      return map_at(as<arrow::MapArray>(array), row, depth);
    case Type::STRUCT:
      return struct_at(as<arrow::StructArray>(array), row, depth);
    case Type::DICTIONARY: {
      const auto& coded = as<arrow::DictionaryArray>(array);
      return value_at(*coded.dictionary(), coded.GetValueIndex(row), depth + 1);
    }
    case Type::EXTENSION:
      return extension_at(as<arrow::ExtensionArray>(array), row, depth);
    default:
      return printed(array, row);
  }
}

// Row numbers within a column that comes in several pieces.
class Column {
 public:
  explicit Column(std::shared_ptr<arrow::ChunkedArray> data) : data_(std::move(data)) {}
  json next() {
    while (row_ == data_->chunk(chunk_)->length()) {
      ++chunk_;
      row_ = 0;
    }
    return value_at(*data_->chunk(chunk_), row_++, 0);
  }

 private:
  std::shared_ptr<arrow::ChunkedArray> data_;
  int chunk_ = 0;
  std::int64_t row_ = 0;
};

}  // namespace

bool has_parquet() { return true; }

struct ParquetReader::State {
  std::string path;
  std::unique_ptr<parquet::arrow::FileReader> reader;
  std::vector<std::string> names;
  std::vector<int> leaves;         // Parquet's leaf columns below the wanted ones
  std::vector<Column> columns;     // of the current row group
  std::int64_t left = 0, row = 0;  // rows not yet taken from it; rows taken of the file
  int next_group = 0;

  void check(const arrow::Status& status) const {
    if (!status.ok())
      throw Error(ErrorKind::data, path + ": not a readable Parquet file: " + escape_for_terminal(status.message()));
  }
  template <class T>
  T value(arrow::Result<T> result) const {
    check(result.status());
    return std::move(result).ValueUnsafe();
  }
  void choose(const std::vector<std::string>& wanted);
  bool load_group();
  json read_row();
};

namespace {

void collect_leaves(const parquet::arrow::SchemaField& field, std::vector<int>& leaves) {
  if (field.column_index >= 0) leaves.push_back(field.column_index);
  for (const auto& child : field.children) collect_leaves(child, leaves);
}

// Of a feature of the datasets library, as {"_type": "ClassLabel", "names": [...]}, or a list of such; {}: none.
std::vector<std::string> names_of(const json& feature, int depth = 0) {
  if (feature.is_array() && feature.size() == 1 && depth < 4) return names_of(feature[0], depth + 1);
  if (!feature.is_object() || !feature.contains("_type")) return {};
  if (feature["_type"] != "ClassLabel")
    return feature.contains("feature") && depth < 4 ? names_of(feature["feature"], depth + 1)
                                                    : std::vector<std::string>();
  std::vector<std::string> names;
  if (!feature.contains("names") || !feature["names"].is_array()) return {};
  for (const json& name : feature["names"]) {
    if (!name.is_string()) return {};
    names.push_back(name.get<std::string>());
  }
  return names;
}

}  // namespace

void ParquetReader::State::choose(const std::vector<std::string>& wanted) {
  std::vector<std::string> known;
  for (const auto& field : reader->manifest().schema_fields) known.push_back(field.field->name());
  for (const std::string& name : wanted) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    Error error(ErrorKind::data,
                fmt::format("{}: no column {}; it has {}", path, hone::quoted(name), list_names(known)));
    const std::string near = nearest(name, known);
    if (near.empty()) throw error;
    throw std::move(error).hint("did you mean " + hone::quoted(near) + "?");
  }
  for (const auto& field : reader->manifest().schema_fields) {
    const std::string& name = field.field->name();
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), name) == wanted.end()) continue;
    names.push_back(name);
    collect_leaves(field, leaves);
  }
}

bool ParquetReader::State::load_group() {
  while (left == 0) {
    if (next_group == reader->num_row_groups()) return false;
    const std::shared_ptr<arrow::Table> table = value(reader->ReadRowGroup(next_group++, leaves));
    check(table->Validate());
    columns.clear();
    for (const std::string& name : names) {
      const auto column = table->GetColumnByName(name);
      if (!column) throw Error(ErrorKind::data, path + ": column " + hone::quoted(name) + " is there twice");
      columns.emplace_back(column);
    }
    left = table->num_rows();
  }
  return true;
}

json ParquetReader::State::read_row() {
  json values = json::object();
  std::size_t i = 0;
  try {
    for (; i < names.size(); ++i) values[names[i]] = columns[i].next();
  } catch (Error& error) {
    error.add_context(fmt::format("reading column {} of {}:{}", hone::quoted(names[i]), path, row + 1));
    throw;
  }
  return values;
}

ParquetReader::ParquetReader(const std::filesystem::path& path, const std::vector<std::string>& columns)
    : state_(std::make_unique<State>()) {
  state_->path = path.string();
  const InFile regular(path, ErrorKind::data);  // says so if it is a folder or a device
  try {
    auto file = state_->value(arrow::io::ReadableFile::Open(path.string()));
    state_->reader = state_->value(parquet::arrow::OpenFile(std::move(file), arrow::default_memory_pool()));
    state_->choose(columns);
  } catch (const parquet::ParquetException& error) {
    throw Error(ErrorKind::data, state_->path + ": not a readable Parquet file: " + escape_for_terminal(error.what()));
  }
}

ParquetReader::~ParquetReader() = default;
ParquetReader::ParquetReader(ParquetReader&&) noexcept = default;
const std::vector<std::string>& ParquetReader::columns() const { return state_->names; }

std::map<std::string, std::vector<std::string>> ParquetReader::class_names() const {
  std::map<std::string, std::vector<std::string>> found;
  const auto metadata = state_->reader->parquet_reader()->metadata()->key_value_metadata();
  if (!metadata || !metadata->Contains("huggingface")) return found;
  const std::string text = state_->value(metadata->Get("huggingface"));
  json features = json::parse(text, nullptr, /*allow_exceptions=*/false);  // another program may write there, too
  for (const char* key : {"info", "features"}) {
    if (!features.is_object() || !features.contains(key)) return found;
    json inner = features[key];
    features = std::move(inner);
  }
  if (!features.is_object()) return found;
  for (const auto& [column, feature] : features.items())
    if (auto names = names_of(feature); !names.empty()) found[column] = std::move(names);
  return found;
}

std::int64_t ParquetReader::rows() const { return state_->reader->parquet_reader()->metadata()->num_rows(); }
std::int64_t ParquetReader::row() const { return state_->row; }

bool ParquetReader::next(json& row) {
  State& state = *state_;
  try {
    if (!state.load_group()) return false;
    row = state.read_row();
  } catch (const parquet::ParquetException& error) {
    throw Error(ErrorKind::data, state.path + ": not a readable Parquet file: " + escape_for_terminal(error.what()));
  }
  --state.left;
  ++state.row;
  return true;
}

}  // namespace hone::io

#else  // no Arrow in this build

namespace hone::io {

struct ParquetReader::State {};

bool has_parquet() { return false; }

ParquetReader::ParquetReader(const std::filesystem::path& path, const std::vector<std::string>&) {
  throw Error(ErrorKind::data, path.string() + ": this build cannot read Parquet")
      .hint(
          "pip install pyarrow, then configure with -DHONE_PYARROW_DIR=<its folder>; or convert the file to JSON "
          "Lines");
}

ParquetReader::~ParquetReader() = default;
ParquetReader::ParquetReader(ParquetReader&&) noexcept = default;
const std::vector<std::string>& ParquetReader::columns() const {
  static const std::vector<std::string> none;
  return none;
}
std::map<std::string, std::vector<std::string>> ParquetReader::class_names() const { return {}; }
std::int64_t ParquetReader::rows() const { return 0; }
std::int64_t ParquetReader::row() const { return 0; }
bool ParquetReader::next(nlohmann::ordered_json&) { return false; }

}  // namespace hone::io

#endif
