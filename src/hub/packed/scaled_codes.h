// Weights of codes with scales: a number is (code - zero) * scale, where some rows and columns have one scale (and
// zero).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hub/packed/packed.h"
#include "hub/packed/quantization_config.h"

namespace hone::hub {

// How codes lie in their file, for a weight [O, I]. P: codes in a word of 32 bits, the first one in its lowest bits.
enum class CodeOrder {
  bytes,        // [O, I] (or [experts, O, I]): a byte each, F8_E4M3, F8_E5M2 or I8
  row_words,    // I32 [O, I/P], less 2^(bits - 1); zeros I32 [O/P, groups]
  input_words,  // I32 [I/P, O], GPTQ; scales [groups, O], zeros I32 [groups, O/P]
  awq_words,    // I32 [I, O/8] with outputs 0 2 4 6 1 3 5 7 in a word; scales [groups, O], zeros I32 [groups, O/8]
};

struct CodeParts {
  SafetensorsSet::Place codes, scales;
  std::optional<SafetensorsSet::Place> zeros = {}, groups = {};  // groups: of each input, I32 [I]
  std::optional<std::vector<std::int64_t>> shape = {};           // of row_words, as the folder says
  std::vector<SafetensorsSet::Place> others = {};                // read already, or needed by nobody
};

class ScaledCodes final : public Packed {
 public:
  // Error(checkpoint): a part is of another type or shape than the scheme says.
  ScaledCodes(const std::string& name, const std::string& method, CodeOrder order, CodeScheme scheme, CodeParts parts,
              const PackedConfig& config);
  bool can_be_split() const override { return order_ == CodeOrder::bytes && whole_.shape.size() == 3; }
  std::shared_ptr<const Packed> rows(std::string name, std::int64_t first, std::int64_t count) const override;

 protected:
  at::Tensor read_some(std::int64_t first, std::int64_t last, at::ScalarType type) const override;

 private:
  // Scales and zeros by rows and columns of a grid, the experts' one behind another.
  struct Grid {
    std::vector<float> scales, zeros;  // zeros: none, or as many
    std::vector<std::int32_t> groups;  // column of the grid of each input; none: in turn
  };
  struct Band;
  ScaledCodes(const ScaledCodes& whole, std::string name, std::int64_t first, std::int64_t count);
  void check_codes();
  void check_scales() const;
  void check_zeros() const;
  void check_groups() const;
  std::vector<std::int64_t> grid_shape() const;  // as it lies in the file
  Grid read_grid() const;
  std::vector<float> read_scales() const;
  std::vector<float> read_zeros() const;
  std::vector<std::uint32_t> words_of_all() const;  // where rows do not lie by themselves
  void read_band(Band& band, const std::vector<std::uint32_t>& words) const;
  void read_input_words(Band& band, const std::vector<std::uint32_t>& words) const;
  void read_awq_words(Band& band, const std::vector<std::uint32_t>& words) const;
  template <class T>
  void unpack(std::int64_t first_row, const at::Tensor& into) const;
  template <class T>
  bool write_row(const std::uint8_t* codes, std::int64_t row, const Grid& grid, T* into) const;  // all are finite

  CodeOrder order_;
  CodeScheme scheme_;
  CodeParts files_;
  bool zeros_less_one_;
  std::int64_t experts_ = 1, outputs_ = 0, inputs_ = 0;  // of all of the codes
  std::int64_t grid_rows_ = 0, grid_columns_ = 0;        // of an expert
  std::int64_t first_row_ = 0;                           // of the codes' rows; else of another part
  std::vector<float> numbers_;                           // of each code
};

}  // namespace hone::hub
