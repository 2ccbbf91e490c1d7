// Atomic functions: they return what was there before.
#pragma once

namespace emulated {

template <typename T> struct BitsOf;
template <> struct BitsOf<int> { typedef unsigned Type; };
template <> struct BitsOf<unsigned> { typedef unsigned Type; };
template <> struct BitsOf<float> { typedef unsigned Type; };
template <> struct BitsOf<long long> { typedef unsigned long long Type; };
template <> struct BitsOf<unsigned long long> { typedef unsigned long long Type; };
template <> struct BitsOf<double> { typedef unsigned long long Type; };

template <typename T, typename F> T change(T* at, F next) {
    typedef typename BitsOf<T>::Type Bits;
    Bits before = __atomic_load_n((Bits*)at, __ATOMIC_RELAXED), after;
    do after = bits_as<Bits>(next(bits_as<T>(before)));
    while (!__atomic_compare_exchange_n((Bits*)at, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return bits_as<T>(before);
}

// The type of a pointer says that of the value.
template <typename T> struct Same { typedef T Type; };
template <typename T> using Value = typename Same<T>::Type;

}  // namespace emulated

template <typename T> T atomicAdd(T* at, emulated::Value<T> value) {
    return emulated::change(at, [=](T old) { return (T)(old + value); });
}
template <typename T> T atomicSub(T* at, emulated::Value<T> value) {
    return emulated::change(at, [=](T old) { return (T)(old - value); });
}
template <typename T> T atomicMin(T* at, emulated::Value<T> value) {
    return emulated::change(at, [=](T old) { return value < old ? value : old; });
}
template <typename T> T atomicMax(T* at, emulated::Value<T> value) {
    return emulated::change(at, [=](T old) { return old < value ? value : old; });
}
template <typename T> T atomicExch(T* at, emulated::Value<T> value) {
    return emulated::change(at, [=](T) { return value; });
}
template <typename T> T atomicCAS(T* at, emulated::Value<T> expected, emulated::Value<T> value) {
    return emulated::change(at, [=](T old) { return old == expected ? value : old; });
}
