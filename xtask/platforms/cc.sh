# Compiles and links for another platform: cc.sh ZIG TARGET [ARGUMENT...]. zig brings headers, C library and linker.
# It refuses or has its own idea of the arguments that are left out here, which rustc and build scripts pass.
zig=$1
target=$2
shift 2
for argument do
    shift
    case $argument in
        --target=* | -m64 | -Wl,-O1 | -nolibc | --unwindlib=none) ;;
        -lmsvcrt | -lmingw32 | -lmingwex) ;;
        # The names that a library gives away are a file like others.
        -Wl,*.def) set -- "$@" "${argument#-Wl,}" ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "$zig" cc -target "$target" "$@"
