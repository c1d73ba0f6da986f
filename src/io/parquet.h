// Rows of a Parquet file as JSON objects, by the Arrow libraries of the pyarrow wheel where the build has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace hone::io {

bool has_parquet();  // whether this build can read Parquet

// Reads one row group at a time. Throws Error(data): no Parquet in this build (says how to get it), or a bad file.
class ParquetReader {
 public:
  // columns: top-level names to read; {} = all. An unknown one is an error with the nearest name.
  explicit ParquetReader(const std::filesystem::path& path, const std::vector<std::string>& columns = {});
  ~ParquetReader();
  ParquetReader(ParquetReader&&) noexcept;
  const std::vector<std::string>& columns() const;  // the ones that are read, in file order
  // Columns whose whole numbers, or lists of them, count names, as the datasets library writes it (ClassLabel).
  std::map<std::string, std::vector<std::string>> class_names() const;
  std::int64_t rows() const;
  bool next(nlohmann::ordered_json& row);  // an object with one entry per column; lists and structs nest
  std::int64_t row() const;                // number of the row last returned, from 1

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hone::io
