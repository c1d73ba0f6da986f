// One element's update by Lion: for the host's loop and, as text, for a GPU's kernel (optim/elementwise.h).
template <class T>
struct Element {
  static constexpr int kStates = 1;
  T scale, decay, keep;  // Common
  T learning_rate, beta1, to_direction, beta2, to_m;

  HONE_ELEMENT void update(T g, T& w, T& m) const {
    const T gradient = g * scale, direction = m * beta1 + gradient * to_direction;
    const T sign = direction > 0 ? T(1) : direction < 0 ? T(-1) : T(0);
    w = w * keep - learning_rate * sign;
    m = m * beta2 + gradient * to_m;
  }
};
